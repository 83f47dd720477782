"""The contracts of depth header, one module per term of the interface."""

from contracts.header.rule import RULES
from contracts.header.rules import (  # noqa: F401 (each registers its rules)
    algorithm,
    attention,
    aux_layers,
    config,
    dtypes,
    norms,
    release,
    rope,
    sharing,
    target,
    tensor_shapes,
    vocab_map,
    weight_names,
)

__all__ = ["RULES"]
