"""A trained model: let it write, take it out, bring one in."""

from pathlib import Path
from typing import Annotated

import typer

from labkit.cli.application import answering, app, write_json
from labkit.cli.asked import checked, recorded
from labkit.cli.options import AsJson, Debug, Device, Prompts, Runs, RunTarget, folder_named


@app.command()
def generate(
    target: RunTarget,
    *,
    prompts: Prompts = None,
    tokens: Annotated[int, typer.Option(metavar="N", help="At most so many, for each prompt.")] = 128,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 the probable is more so; 0 is greedy.", show_default="1")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(metavar="K", help="Only the K most probable tokens.", show_default="all")
    ] = None,
    top_p: Annotated[float, typer.Option(metavar="P", help="Only the fewest tokens that reach probability P.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.")] = 0,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the most probable token.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read the whole text again for each token.")] = False,
    device: Device = "auto",
    as_json: AsJson = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """Let a finished run's model write on."""
    with answering(debug) as console:
        from labkit.generate import Sampling, Writer
        from labkit.generate.writer import VERSION, legible
        from labkit.spec import Mistake
        from labkit.study.finding import run_of
        from labkit.train.device import settings
        from labkit.train.run import Runtime

        if greedy and temperature:
            raise Mistake(f"--greedy: --temperature {temperature:g} is given as well; leave one of them out")
        heat = 0.0 if greedy else 1.0 if temperature is None else temperature
        fields = {"tokens": tokens, "top_k": top_k, "top_p": top_p, "seed": seed}
        sampling = checked(Sampling, **fields, temperature=heat)
        runtime, found = checked(Runtime, device=device), run_of(target, runs, console.say)
        spec = recorded(found.path)
        with settings(runtime) as chosen:
            writer = Writer.opened(found, spec, chosen, console)
            written = writer.write(prompts or [""], sampling, cached=not no_cache)
        if as_json:
            texts = [each.as_json() for each in written]
            write_json(
                console,
                {"version": VERSION, "run": str(found.path), "sampling": sampling.as_json(), "texts": texts},
            )
        else:
            console.show("\n\n".join(legible(each.prompt + each.text) for each in written), whole=True)


@app.command("import")
def import_model(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A model that transformers saved.")],
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=folder_named, help="Where to write it.", show_default="imported/<DIR's name>"
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """A model of Hugging Face as a model spec and weights."""
    with answering(debug) as console:
        from labkit.interop import as_python, import_folder

        target = to or Path("imported") / folder.resolve().name
        spec = import_folder(folder, target)
        if as_json:
            write_json(console, {"version": 1, "folder": str(target), "model": spec.as_json()})
        else:
            console.document(f"model = {as_python(spec)}")
            console.say(f"written to {target}; labkit.interop.load({str(target)!r}) gives the spec and the model")
            if (tokens := folder.absolute() / "tokenizer.json").is_file():
                console.say(f'its tokenizer stays there: {{"kind": "pretrained", "path": "{tokens}"}}')


@app.command("export")
def export_model(
    target: RunTarget,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", parser=folder_named, help="Where to write it: a new folder.")
    ],
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """A finished run as a folder that transformers loads with no custom code."""
    with answering(debug) as console:
        from labkit.interop import export_run
        from labkit.study.finding import run_of

        run = run_of(target, runs, console.say)
        spec = recorded(run.path)
        exported = export_run(run, spec, folder, console)
        for note in exported.notes:
            console.say(note, "yellow")
        console.say(f"{folder}: {exported.architecture}; AutoModelForCausalLM.from_pretrained loads it")
