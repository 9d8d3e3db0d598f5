"""Text from a finished run: a cache of keys and values, and ways to choose the next token."""

from labkit.generate.decoding import Continuation as Continuation
from labkit.generate.decoding import generate as generate
from labkit.generate.sampling import Sampling as Sampling
from labkit.generate.writer import Writer as Writer
