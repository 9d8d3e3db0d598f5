"""One way of writing for all specs that compute the same function, so that they can be compared."""

import math
from typing import Any

from labkit.components import Dropout, Loss
from labkit.components.attention import Gqa, Mha, Mqa
from labkit.components.feedforward import Hidden
from labkit.components.init import Normal
from labkit.components.parametrization import Standard
from labkit.components.position import Rope
from labkit.components.rope_scaling import Llama3Scaling, NtkScaling, YarnScaling
from labkit.components.score_scale import Fixed, Inverse, InverseRoot
from labkit.model import ModelSpec
from labkit.spec import Spec


def resolved(spec: ModelSpec) -> tuple[ModelSpec, ...]:
    """Each layer's spec with every size written out, and one name for what goes by several."""
    return tuple(layer.patched(_attention(layer) | _feedforward(layer) | _position(layer)) for layer in spec.layers)


def differences(spec: ModelSpec, other: ModelSpec) -> dict[str, tuple[str, str]]:
    """Where two specs compute different functions: path -> (here, there). How they are trained is left aside."""
    if spec.n_layers != other.n_layers:
        return {"n_layers": (str(spec.n_layers), str(other.n_layers))}
    found: dict[str, tuple[str, str]] = {}
    for here, there in zip(resolved(spec), resolved(other), strict=True):
        found = _function(here).differences(_function(there)) | found
    return found


def training_only(spec: ModelSpec, other: ModelSpec) -> dict[str, tuple[str, str]]:
    """Where two specs would be trained differently: dropout and the loss."""
    return {
        f"{name}.{path}": change
        for name in ("dropout", "loss")
        for path, change in getattr(spec, name).differences(getattr(other, name)).items()
    }


def fraction_of(rotated: int, head_dim: int) -> float:
    """The share of a head of which as many features turn."""
    share = rotated / head_dim
    return share if int(head_dim * share) == rotated else math.nextafter(share, 1.0)


def _function(layer: ModelSpec) -> Spec:
    """Without what only training sees; at base width, that is all of the parametrization."""
    at_base = layer.parametrization.base(layer.d_model) == layer.d_model
    plain = {"parametrization": Standard()} if at_base else {}
    return layer.patched({"dropout": Dropout(), "loss": Loss(), "init": Normal(), **plain})


def _attention(layer: ModelSpec) -> dict[str, object]:
    attention, width = layer.attention, layer.d_model
    if not isinstance(attention, Mha | Gqa | Mqa):
        return {"pattern": ()}
    head_dim = attention.width_of_head(width)
    same: dict[str, Any] = {name: value for name, value in attention if name not in ("kind", "n_kv_heads")}
    same |= {f"{name}_bias": name in attention.biased for name in ("query", "key", "value")} | {"bias": False}
    if isinstance(attention.scale, InverseRoot | Inverse | Fixed):
        same["scale"] = Fixed(value=_snapped(attention.scale.factor(head_dim)))
    same |= {"n_kv_heads": attention.kv_heads, "head_dim": head_dim}
    return {"attention": Gqa.model_validate(same), "pattern": ()}


def _snapped(scale: float) -> float:
    """1 / √n for a whole n that it is the last digits away from; else the number itself."""
    whole = round(scale**-2)
    return whole**-0.5 if whole and math.isclose(scale, whole**-0.5, rel_tol=1e-14) else scale


def _feedforward(layer: ModelSpec) -> dict[str, object]:
    unit = layer.feedforward
    if not isinstance(unit, Hidden):
        return {}
    plain = type(unit)()
    sizes = {"d_ff": unit.hidden(layer.d_model), "multiplier": plain.multiplier, "multiple_of": plain.multiple_of}
    return {f"feedforward.{name}": value for name, value in sizes.items()}


def _position(layer: ModelSpec) -> dict[str, object]:
    rope = layer.position
    if not isinstance(rope, Rope):
        return {}
    head_dim = layer.attention.width_of_head(layer.d_model)
    rotated = rope.rotated(head_dim)
    paths: dict[str, object] = {"position.layout": "half", "position.fraction": fraction_of(rotated, head_dim)}
    if isinstance(rope.scaling, NtkScaling):
        stretched = rope.theta * rope.scaling.factor ** (rotated / (rotated - 2))
        paths |= {"position.theta": stretched, "position.scaling": "none"}
    if isinstance(rope.scaling, Llama3Scaling | YarnScaling):
        paths["position.scaling.original"] = rope.scaling.original or layer.context
    return paths
