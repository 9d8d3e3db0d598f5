"""A finished run that writes: from text to text."""

from dataclasses import dataclass
from typing import Any

import torch

from labkit.data import Store
from labkit.generate.decoding import Continuation, generate
from labkit.generate.sampling import Sampling
from labkit.model import Transformer
from labkit.spec import Mistake
from labkit.tracking.progress import Progress
from labkit.tracking.record import Run
from labkit.train.finished import finished, store_of, trained_again
from labkit.train.run import RunSpec

VERSION = 1


@dataclass(frozen=True)
class Written:
    """A prompt and what follows it; an empty prompt is what follows the end token, the beginning of a document."""

    prompt: str
    text: str
    continuation: Continuation

    def as_json(self) -> dict[str, Any]:
        tokens, ended = list(self.continuation.tokens), self.continuation.ended
        return {"prompt": self.prompt, "text": self.text, "tokens": tokens, "ended": ended}


class Writer:
    """A model and the tokenizer that it was trained with."""

    def __init__(self, model: Transformer, store: Store) -> None:
        self.model, self.store, self.encoder = model, store, store.encoder

    @classmethod
    def opened(cls, run: Run, spec: RunSpec, device: torch.device, progress: Progress) -> "Writer":
        """Of a finished run. Raises Mistake where its weights or its data are not there."""
        model, store = finished(run, spec, device), store_of(run, spec, progress)
        if model.vocab_size != store.size:
            counts = f"{model.vocab_size} tokens, and its data store {store.path} has {store.size}"
            raise Mistake(f"{run.path}: its weights are of {counts}; {trained_again(run)}")
        return cls(model, store)

    def write(self, prompts: list[str], sampling: Sampling, *, cached: bool = True) -> list[Written]:
        """What follows each prompt; none is read as more than text, so that no sign in it ends a document."""
        encoded = [self.encode(prompt) for prompt in prompts]
        followed = generate(self.model, encoded, sampling, end=self.store.end, cached=cached)
        return [
            Written(prompt, self.store.decode(continuation.tokens), continuation)
            for prompt, continuation in zip(prompts, followed, strict=True)
        ]

    def encode(self, prompt: str) -> list[int]:
        """The tokens of a prompt. Raises Mistake for what is no text."""
        try:
            tokens, _ = self.encoder.encode([prompt.encode()])
        except UnicodeEncodeError as error:
            raise Mistake(f"--prompt: {prompt!r} is not valid UTF-8; write the text in that encoding") from error
        return tokens.tolist()


def legible(text: str) -> str:
    """A text whose control characters cannot steer a terminal: � instead, but for line ends and tabs."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "�" for sign in text)
