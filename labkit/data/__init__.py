"""Text becomes documents, documents become tokens, tokens become windows."""

from labkit.data.batches import Batches as Batches
from labkit.data.batches import windows as windows
from labkit.data.corpus import Corpus as Corpus
from labkit.data.corpus import Document as Document
from labkit.data.corpus import Source as Source
from labkit.data.corpus import Text as Text
from labkit.data.ends import bounds as bounds
from labkit.data.ends import spans as spans
from labkit.data.further import Further as Further
from labkit.data.huggingface import HuggingFace as HuggingFace
from labkit.data.packages import Packages as Packages
from labkit.data.prepare import DataSpec as DataSpec
from labkit.data.prepare import look as look
from labkit.data.prepare import prepare as prepare
from labkit.data.pretrained import Pretrained as Pretrained
from labkit.data.shards import Split as Split
from labkit.data.stdlib import Stdlib as Stdlib
from labkit.data.store import Store as Store
from labkit.data.tokenizer import Bpe as Bpe
from labkit.data.tokenizer import Byte as Byte
from labkit.data.tokenizer import Tokenizer as Tokenizer
