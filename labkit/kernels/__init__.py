"""Fused operations: one a file, each with its formula, its torch reference, and its Triton kernels."""

from labkit.kernels.activation import Activation as Activation
from labkit.kernels.activation import activation as activation
from labkit.kernels.adamw import Slot as Slot
from labkit.kernels.adamw import Table as Table
from labkit.kernels.adamw import adamw as adamw
from labkit.kernels.attention import attend as attend
from labkit.kernels.attention import attend_packed as attend_packed
from labkit.kernels.attention import attends as attends
from labkit.kernels.attention import attends_packed as attends_packed
from labkit.kernels.cross_entropy import cross_entropy as cross_entropy
from labkit.kernels.embedding import embedding as embedding
from labkit.kernels.glu import glu as glu
from labkit.kernels.glu import glu_backward as glu_backward
from labkit.kernels.grad_norm import grad_norm as grad_norm
from labkit.kernels.launch import Kernels as Kernels
from labkit.kernels.launch import available as available
from labkit.kernels.launch import on_device as on_device
from labkit.kernels.launch import using as using
from labkit.kernels.linear_cross_entropy import linear_cross_entropy as linear_cross_entropy
from labkit.kernels.norm import add_layer_norm as add_layer_norm
from labkit.kernels.norm import add_rms_norm as add_rms_norm
from labkit.kernels.norm import layer_norm as layer_norm
from labkit.kernels.norm import rms_norm as rms_norm
from labkit.kernels.rope import Rotation as Rotation
from labkit.kernels.rope import rope as rope
from labkit.kernels.scores import Scores as Scores
