"""The registry: one family a file, one short class a variant. Importing it makes every variant of labkit known."""

from labkit.components.attention import Attention as Attention
from labkit.components.auxiliary import Auxiliary as Auxiliary
from labkit.components.differential import Differential as Differential
from labkit.components.dropout import Dropout as Dropout
from labkit.components.embedding import Embedding as Embedding
from labkit.components.embedding import Head as Head
from labkit.components.feedforward import FeedForward as FeedForward
from labkit.components.gather import Gate as Gate
from labkit.components.init import Init as Init
from labkit.components.loss import Loss as Loss
from labkit.components.mla import Mla as Mla
from labkit.components.moe import Moe as Moe
from labkit.components.norm import Norm as Norm
from labkit.components.norm import NormModule as NormModule
from labkit.components.parameters import Linear as Linear
from labkit.components.parameters import Part as Part
from labkit.components.parameters import Role as Role
from labkit.components.parameters import parameter as parameter
from labkit.components.parametrization import Parametrization as Parametrization
from labkit.components.place import Place as Place
from labkit.components.position import Position as Position
from labkit.components.residual import Residual as Residual
from labkit.components.rope_scaling import RopeScaling as RopeScaling
from labkit.components.scale import BranchScale as BranchScale
from labkit.components.score_scale import ScoreScale as ScoreScale
