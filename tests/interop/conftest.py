"""Small random models of transformers, and how close labkit's are to them."""

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from labkit.components.parameters import logical
from labkit.interop import ARCHITECTURES, export_model, load
from labkit.interop.canonical import differences


@pytest.fixture(scope="session")
def transformers() -> Any:
    """The library; what it or torch warn of while it is imported is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = pytest.importorskip("transformers", exc_type=ImportError)
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()
        return library


@pytest.fixture
def agrees(transformers: Any, tmp_path: Path) -> Callable[..., None]:
    """(config class, **fields): all that is asked of a model of an architecture."""
    return lambda config_class, **fields: _agrees(transformers, config_class, fields, tmp_path)


VOCAB, TOKENS = 53, (2, 24)
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "initializer_range": 0.1,
}
"""Of all that follow Llama in how they name them."""
LARGEST: dict[str, float] = {}


def close(ours: torch.Tensor, theirs: torch.Tensor, what: str) -> None:
    """Within 1e-5 of the largest number."""
    error = ((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-12)).item()
    LARGEST[what.partition(" ")[0]] = max(error, LARGEST.get(what.partition(" ")[0], 0.0))
    assert error < 1e-5, f"{what}: {error:.2e}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for what, error in sorted(LARGEST.items()):
        terminalreporter.write_line(f"largest relative difference of {what}: {error:.2e}")


def _agrees(transformers: Any, config_class: str, fields: dict[str, Any], folder: Path) -> None:
    """Import, compare forward and gradients, export, load with transformers and import again."""
    theirs = saved(transformers, config_class, fields, folder / "theirs")
    spec, ours = load(folder / "theirs")
    model_type = theirs.config.model_type
    compare(model_type, ours, theirs)
    compare_gradients(model_type, ours, theirs)
    architecture = ARCHITECTURES[model_type]
    assert architecture.spec({**architecture.config(spec), "vocab_size": VOCAB}) == spec
    exported = export_model(ours, folder / "ours")
    again, said = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "ours", attn_implementation="eager", output_loading_info=True
    )
    assert type(again).__name__ == exported.architecture
    assert not any(said.values()), said
    compare(model_type, ours, again.eval())
    spec_again, ours_again = load(folder / "ours")
    assert differences(spec, spec_again) == {}
    compare(model_type, ours_again, theirs)


def saved(transformers: Any, config_class: str, fields: dict[str, Any], folder: Path) -> Any:
    """A model with random weights, norms and biases too, in a folder."""
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(vocab_size=VOCAB, attn_implementation="eager", **copy.deepcopy(fields))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


def compare(model_type: str, ours: Any, theirs: Any) -> None:
    tokens_BT = torch.randint(0, VOCAB, TOKENS, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        close(ours.eval()(tokens_BT), theirs(tokens_BT).logits, f"{model_type} logits")


def compare_gradients(model_type: str, ours: Any, theirs: Any) -> None:
    """Of a random linear function of the logits, by every parameter; theirs are laid out as the parameters are."""
    tokens_BT = torch.randint(0, VOCAB, TOKENS, generator=torch.Generator().manual_seed(2))
    slope_BTV = torch.randn(*TOKENS, VOCAB, generator=torch.Generator().manual_seed(3))
    (ours.eval()(tokens_BT) * slope_BTV).sum().backward()
    (theirs(tokens_BT).logits * slope_BTV).sum().backward()
    head = ARCHITECTURES[model_type].head  # GPT-NeoX's is lm_head in memory and embed_out in files
    stored = {name.replace("lm_head", head): parameter.grad for name, parameter in theirs.named_parameters()}
    shapes = {name: view.shape for name, view in logical(ours).items()}
    wanted = ARCHITECTURES[model_type].tensors.read(stored.__getitem__, shapes, ours.spec)
    found = logical(ours, {name: parameter.grad for name, parameter in ours.named_parameters()})
    scale = max(gradient.abs().max().item() for gradient in wanted.values())
    for name, gradient in wanted.items():
        if gradient.abs().max() > 1e-4 * scale:
            close(found[name], gradient, f"{model_type}-gradients {name}")
        else:
            assert (found[name] - gradient).abs().max() < 1e-5 * scale, name
