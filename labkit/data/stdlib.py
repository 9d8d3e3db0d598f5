"""The text that every machine has: the source of Python's own standard library."""

import hashlib
import platform
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from labkit.data.corpus import Corpus, Source
from labkit.spec import Mistake
from labkit.tracking.progress import Progress

NEWEST = (3, 14)
"""The newest Python whose library was compared with the list; later ones may have dropped a module."""

# Modules and packages that Python 3.11 to 3.14 all have. Left out are those that distributions patch or package apart
# (argparse, ctypes, dbm, ensurepip, gettext, idlelib, locale, pathlib, pydoc, site, sysconfig, tempfile, tkinter,
# turtle, venv), generated tables (encodings, pydoc_data, stringprep, keyword, token), and modules on their way out
# (nturl2path, profile, sre_*).
MODULES = """
    __future__ _collections_abc _compat_pickle _markupbase _py_abc _pydecimal _pyio _strptime _threading_local
    _weakrefset abc ast asyncio base64 bdb bisect bz2 cProfile calendar cmd code codecs codeop collections colorsys
    concurrent configparser contextlib copy copyreg csv curses dataclasses datetime decimal difflib dis doctest
    email enum filecmp fileinput fnmatch fractions ftplib functools genericpath getopt getpass glob graphlib gzip
    hashlib heapq hmac html http imaplib importlib inspect io ipaddress json linecache logging lzma mailbox
    mimetypes modulefinder multiprocessing netrc ntpath numbers opcode operator optparse os pdb pickle pickletools
    pkgutil platform plistlib poplib posixpath pprint pstats pty pyclbr queue quopri random re reprlib rlcompleter
    runpy sched secrets selectors shelve shlex shutil signal smtplib socket socketserver sqlite3 ssl stat statistics
    string subprocess symtable tabnanny tarfile textwrap threading timeit tokenize tomllib trace traceback
    tracemalloc tty types typing unittest urllib uuid warnings wave weakref webbrowser wsgiref xml xmlrpc zipapp
    zipfile zipimport zoneinfo
"""

TABLES = frozenset({"html/entities.py", "re/_casefix.py"})


class Stdlib(Corpus):
    """The source of the running Python's standard library, by a fixed list: always there, a file a document."""

    kind: Literal["stdlib"] = "stdlib"

    def resolve(self, base: Path, progress: Progress) -> Source:
        texts = library(Path(sysconfig.get_path("stdlib")))
        contents = hashlib.sha256()
        for text in texts:
            contents.update(hashlib.sha256(text.encode()).digest())
        return Source(contents.hexdigest(), f"Python {platform.python_version()}", lambda: ((text,) for text in texts))


def library(root: Path) -> list[str]:
    """The text of every file of the list below `root`, in the list's order. Raises Mistake for a library with holes."""
    files = {name: sorted(_files(root, name)) for name in MODULES.split()}
    missing = [name for name in files if not files[name]]
    if missing and sys.version_info[:2] <= NEWEST:
        raise Mistake(
            f"data.corpus: this Python's standard library ({root}) lacks the source of {', '.join(missing)}. "
            "Install the whole library (on Debian the package libpython3-stdlib), or choose another corpus."
        )
    return [_text(file) for found in files.values() for file in found]


def _files(root: Path, name: str) -> Iterator[Path]:
    yield from root.glob(f"{name}.py")
    for file in root.glob(f"{name}/**/*.py"):
        place = file.relative_to(root)
        if not {"test", "tests"} & set(place.parts) and place.as_posix() not in TABLES:
            yield file


def _text(file: Path) -> str:
    """The text without its #! line, which distributions rewrite."""
    text = file.read_text(encoding="utf-8")
    return text.partition("\n")[2] if text.startswith("#!") else text
