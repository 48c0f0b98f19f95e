"""The keys of a folder: two files with the same content, `keys.json` and `keys.json.previous`.

A change is written to `keys.json.previous` first, and takes effect when it is written to
`keys.json`. Each file is written under a temporary name, synced, read back and renamed. So at any
time at least one of the two files is complete, whatever happens to the disk or the process. If
`keys.json` is damaged, `keys.json.previous` is used, with a warning. A revocation is acknowledged
only after the key was removed from both files. On a full disk, a revocation first removes
`keys.json.previous`, then writes the smaller `keys.json` to the space that this frees.

Format 2 has a checksum, so that a flipped bit in a board's name is detected. Format 1, which had no
checksum, can still be read. A note in the folder's log records that the store needs keys. So this
is known even if the files are lost, or if the store was restored from a backup, which never has the
keys.
"""

import errno
import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from laurels.errors import FormatTooNew, LaurelsError, StorageFailed
from laurels.errors.service import KeysDamaged
from laurels.stores.local.snapshot.files import sync_folder
from laurels.wire.keys import Edit, Key, KeySet, SigningSecret, with_id

KEYS_FILE = "keys.json"
FORMAT = 2
_NEEDS_KEYS = "needs_keys"


class Notes(Protocol):
    """The notes of a folder's log."""

    def note(self, key: str) -> str | None: ...

    def set_note(self, key: str, value: str) -> None: ...


class _Outer(Struct, frozen=True):
    format: int
    sha256: str = ""
    content: msgspec.Raw = msgspec.Raw(b"")


class _Content(Struct, frozen=True):
    signing: tuple[SigningSecret, ...]
    keys: tuple[Key, ...]


class _Format1(Struct, frozen=True):
    secret: str
    keys: tuple[Key, ...]


class FolderKeyStore:
    """Implementation of `KeyStore` in a folder that this process has locked. `warned` is called
    with warnings for the operator."""

    def __init__(
        self, folder: Path, notes: Notes, warned: Callable[[str], None] = lambda _: None
    ) -> None:
        self._path = folder / KEYS_FILE
        self._previous = folder / f"{KEYS_FILE}.previous"
        self._used = folder / "keys-used.json"
        self._notes = notes
        self._warned = warned

    def read(self) -> KeySet:
        try:
            stored = _read(self._path)
        except (KeysDamaged, FormatTooNew) as error:  # a flipped bit may look like a newer format
            previous = self._read_previous(error)
            self._warned(f"{error.what}: {self._previous.name} is used in its place")
            return previous
        if stored is None and (previous_stored := _read(self._previous)) is not None:
            self._warned(f"{KEYS_FILE} is missing: {self._previous.name} is used in its place")
            return previous_stored
        return KeySet() if stored is None else stored

    def _read_previous(self, error: KeysDamaged | FormatTooNew) -> KeySet:
        try:
            previous = _read(self._previous)
        except KeysDamaged as also:
            raise KeysDamaged(f"{error.what}, and {also.what}") from error
        if previous is None:
            raise error
        return previous

    def change(self, edit: Edit) -> KeySet:
        stored = self.read()
        changed = edit(stored)
        content = _encoded(changed)
        try:
            _write(self._previous, content)
        except StorageFailed as error:
            if len(changed.keys) >= len(stored.keys) or not _is_full(error):
                raise
            self._shrink(content)
            return changed
        _write(self._path, content)
        return changed

    def _shrink(self, content: bytes) -> None:
        """Write a smaller set of keys to a full disk. Remove `keys.json.previous` first to free its
        space. If that file is the only valid one, leave it and raise KeysDamaged."""
        if _read(self._path) is None:
            raise KeysDamaged(f"{self._path.name} is missing, and the disk is full")
        before = self._path.read_bytes()
        try:
            self._previous.unlink(missing_ok=True)
            _write(self._path, content)
        except (OSError, StorageFailed) as error:
            with suppress(StorageFailed):
                _write(self._previous, before)
            if isinstance(error, OSError):
                raise StorageFailed(f"{self._previous.name} could not be replaced") from error
            raise
        with suppress(StorageFailed):  # if this fails, the next change writes the file
            _write(self._previous, content)

    def needs_keys(self) -> bool:
        return self._notes.note(_NEEDS_KEYS) is not None or self._path.exists()

    def set_needs_keys(self) -> None:
        if self._notes.note(_NEEDS_KEYS) is None:
            self._notes.set_note(_NEEDS_KEYS, "yes")

    def last_used(self) -> Mapping[str, int]:
        try:
            return msgspec.json.decode(self._used.read_bytes(), type=dict[str, int])
        except (OSError, msgspec.MsgspecError):
            return {}  # the times of last use are only informative

    def store_last_used(self, used_ms: Mapping[str, int]) -> None:
        _write(self._used, msgspec.json.encode({**self.last_used(), **used_ms}))

    def forget_last_used(self, key_id: str) -> None:
        used_ms = dict(self.last_used())
        if used_ms.pop(key_id, None) is not None:
            _write(self._used, msgspec.json.encode(used_ms))


def _is_full(error: StorageFailed) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


def _read(path: Path) -> KeySet | None:
    """Return the content of a file; None if it does not exist. Raises KeysDamaged, FormatTooNew,
    StorageFailed."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFailed(f"{path.name} could not be read ({error.strerror})") from error
    try:
        return _decoded(content, path.name)
    except msgspec.MsgspecError as error:
        raise KeysDamaged(f"{path.name} is not a valid file of keys ({error})") from error


def _decoded(content: bytes, name: str) -> KeySet:
    outer = msgspec.json.decode(content, type=_Outer)
    if outer.format > FORMAT:
        raise FormatTooNew(f"{name} is in format {outer.format}, this version reads {FORMAT}")
    if outer.format < FORMAT:
        keys = msgspec.json.decode(content, type=_Format1).keys
        return KeySet(tuple(map(with_id, keys)))
    if hashlib.sha256(outer.content).hexdigest() != outer.sha256:
        raise KeysDamaged(f"the checksum of {name} does not match")
    stored = msgspec.json.decode(outer.content, type=_Content)
    return KeySet(tuple(map(with_id, stored.keys)), stored.signing)


def _encoded(keys: KeySet) -> bytes:
    content = msgspec.json.encode(_Content(keys.signing, keys.keys))
    content = msgspec.json.format(content)
    digest = hashlib.sha256(content).hexdigest()
    return b'{"format": %d, "sha256": "%b", "content": %b}\n' % (FORMAT, digest.encode(), content)


def _write(path: Path, content: bytes) -> None:
    """Replace a file once the new content is completely on the disk. Only the owner may read the
    file."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        _write_whole(unfinished, content)
        if unfinished.read_bytes() != content:
            raise OSError(errno.EIO, "the content read back differs from what was written")
        unfinished.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        why = error.strerror or type(error).__name__
        raise StorageFailed(f"{path.name} could not be written ({why})") from error
    except LaurelsError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _write_whole(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(path, flags, 0o600)
    try:
        os.fchmod(file, 0o600)
        rest = memoryview(content)
        while rest:
            written = os.write(file, rest)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[written:]
        os.fsync(file)
    finally:
        os.close(file)
