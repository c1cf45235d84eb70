"""Sentence pairs in Parquet files, by pyarrow, which is imported only to read them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simulmt.data.files import FilePair
from simulmt.data.lines import LF
from simulmt.data.pairs import Block
from simulmt.data.shards import stamp, state
from simulmt.data.store import digest_of_file
from simulmt.errors import UserError

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetFile

NEEDED = "which is not installed: pip install 'simulmt[huggingface]'"
"""How a message about a missing package ends."""
TRANSLATION = "translation"
"""The column of `datasets.Translation`: a struct with a text for each language code."""
_GROWTH = 3  # the usual size of text over that of its Parquet file
_BUFFER = 1 << 20  # bytes read at once of a column, which may be larger than memory
_BLOCK = 10_000  # pairs
_LISTED = 20  # columns in a message


class Columns(NamedTuple):
    """The columns of source and target; a dot leads into a struct: `translation.de`."""

    source: str
    target: str


@dataclass(frozen=True)
class ParquetShard:
    """A Parquet file.

    Attributes:
        path: The file.
        languages: The language codes, which name the columns or the fields of `translation`.
        columns: The columns if they have other names.
    """

    path: Path
    languages: Columns
    columns: Columns | None = None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def stamp(self) -> object:
        """The place and the state of the file."""
        return [*stamp([self.path]), *self._taken]

    @property
    def digests(self) -> list[str]:
        """The SHA-256 of the file, and the columns."""
        return [digest_of_file(self.path), *self._taken]

    @property
    def size(self) -> int:
        """The bytes that the text takes, more or less."""
        return _GROWTH * state(self.path).st_size

    @property
    def _taken(self) -> Columns:
        return self.columns or self.languages

    def blocks(self) -> Iterator[Block]:
        """The texts of both columns, in at least one block; null is an empty text.

        Raises:
            UserError: pyarrow is not installed, the file is no Parquet file or damaged, or it
                lacks a column of text.
        """
        try:
            import pyarrow.parquet as pq  # noqa: PLC0415
        except ImportError:
            raise UserError(f"{self.path}: Parquet files need pyarrow, {NEEDED}") from None
        try:
            with pq.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False) as file:
                yield from self._blocks(file)
        except UnicodeDecodeError:
            raise UserError(
                f"{self.path} has text that is not UTF-8: write the file anew"
            ) from None
        except (OSError, ValueError, NotImplementedError) as error:  # pyarrow's derive from these
            raise UserError(
                f"{self.path} is damaged, or no Parquet file ({error}): fetch it again"
            ) from error

    def _blocks(self, file: "ParquetFile") -> Iterator[Block]:
        names = self._columns(file.schema_arrow)
        files, first = FilePair(self.path, self.path), 1
        for batch in file.iter_batches(_BLOCK, columns=list(names)):
            sources, targets = (_raw(batch, name) for name in names)
            yield Block(files, first, sources, targets, "row")
            first += len(batch)
        if first == 1:
            yield Block(files, first, b"", b"", "row")

    def _columns(self, schema: "pyarrow.Schema") -> Columns:
        """Return the two columns; refuse a file without them, or whose values are no texts."""
        in_struct = TRANSLATION in schema.names and not self.columns
        prefix = f"{TRANSLATION}." if in_struct else ""
        names = Columns(*(prefix + name for name in self._taken))
        for name in names:
            kind = _type(schema, name)
            if kind is None:
                raise UserError(
                    f"{self.path} has no column {name}, but {', '.join(_leaves(schema))}: correct "
                    "`source` and `target`, or set columns=[SOURCE,TARGET]"
                )
            if not _is_text(kind):
                raise UserError(
                    f"{self.path}: column {name} holds {kind}, not text; set "
                    "columns=[SOURCE,TARGET] to columns of text"
                )
        return names


def _type(schema: "pyarrow.Schema", name: str) -> "pyarrow.DataType | None":
    """Return the type of a column, or of a field of a struct; None if it is not there."""
    parts = [name] if name in schema.names else name.split(".")
    kind: Any = schema
    for part in parts:
        fields = [field for field in _fields(kind) if field.name == part]
        if len(fields) != 1:
            return None
        kind = fields[0].type
    return kind


def _fields(kind: Any) -> list[Any]:
    """Return the fields of a schema or struct; none for other types."""
    import pyarrow as pa  # noqa: PLC0415

    return list(kind) if isinstance(kind, pa.Schema | pa.StructType) else []


def _leaves(schema: "pyarrow.Schema") -> list[str]:
    """Return the names of the columns, with the fields of structs in place of structs."""
    names = []
    for field in schema:
        inner = [f"{field.name}.{below.name}" for below in _fields(field.type)]
        names += inner or [field.name]
    return names if len(names) <= _LISTED else [*names[:_LISTED], "..."]


def _is_text(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types  # noqa: PLC0415

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _raw(batch: "pyarrow.RecordBatch", name: str) -> bytes:
    """Return the texts of a column as lines."""
    import pyarrow.compute as pc  # noqa: PLC0415

    whole = name in batch.schema.names
    column, *fields = [name] if whole else name.split(".")
    array = batch.column(column)
    for field in fields:
        array = pc.struct_field(array, field)
    texts = ((text or "").replace("\n", " ") for text in array.to_pylist())
    return b"".join(text.encode("utf-8") + LF for text in texts)
