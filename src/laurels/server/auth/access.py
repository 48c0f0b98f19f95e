"""Access: the keys of one deployment, and the tokens that they issue.

A key is 32 random bytes. Only its SHA-256 hash is stored, so a key cannot be recovered from the
file except by guessing all 32 bytes. A key is looked up by its hash, so the time of a comparison
reveals nothing about the key.

Access fails closed. A caller without a key is admitted only if the operator started an *open*
server. A store without keys is not open: it may have lost its keys, because the last key was
revoked, the file is gone, or the index server was flushed. Such a store refuses everybody until a
key is made on the machine itself or LAURELS_ADMIN_KEY is set.
"""

import base64
from collections.abc import Mapping
from contextlib import suppress

from msgspec.structs import replace

from laurels.errors import LaurelsError
from laurels.errors.service import Forbidden, InvalidKey, KeyExists, UnknownKey
from laurels.model.board_patterns import ALL_BOARDS, covers_all, parse_patterns
from laurels.model.validation import quoted, safe_repr
from laurels.wire.keys import Edit, Key, KeySet, SigningSecret

from .admitting import Callers, sha256_of
from .caller import LEVEL, OPERATOR, Caller
from .key_fields import (
    MAX_KEY_SECONDS,
    parse_own_name,
    parse_rate,
    parse_scope,
    parse_seconds,
    parse_subject,
    parse_token_rate,
    subject_of,
)
from .submission_rule import SubmissionRule
from .tokens import MAX_TOKEN_SECONDS, Claims, sign

KEY_PREFIX = "lk_"
MAX_KEYS = 10_000
MAX_MADE_KEYS = 1_000
"""The maximum number of keys that a key limited to some boards may make, including the keys that
are made by these keys."""
FIRST_KEY = "admin"


class Keys(Callers):
    """The keys of one deployment, as last read from their store, with the methods that manage them
    and issue tokens."""

    # Methods that manage the keys

    def listed(self, by: Caller = OPERATOR) -> list[Key]:
        """Return the keys that a caller may manage, sorted by name."""
        keys = (key for key in self._stored.keys if by.manages(key, self._default_rate))
        return sorted(keys, key=lambda key: key.name)

    def last_used(self) -> Mapping[str, int]:
        """Return the time of each key's last use by key id, accurate to about a minute."""
        return {**self._store.last_used(), **dict.fromkeys(self._used, self.now_ms())}

    def store_last_used(self) -> None:
        """Store the times of use since the last call. An error is ignored, since these times are
        only informative."""
        used, self._used = self._used, set()
        used_ms = dict.fromkeys(used & self._by_id.keys(), self.now_ms())
        if used_ms:
            with suppress(LaurelsError):
                self._store.store_last_used(used_ms)

    def ensure_first_key(self) -> str | None:
        """Make an admin key and return its secret, if the store never had a key and
        LAURELS_ADMIN_KEY is not set. Otherwise return None. A store that has lost its keys does not
        get a new key here."""
        if self._admin is not None or self._stored.keys or self._store.needs_keys():
            return None
        try:
            return self.create(FIRST_KEY, "admin")[1]
        except KeyExists:  # another process has made the key
            return None

    def create(
        self,
        name: object,
        scope: object,
        boards: object = ALL_BOARDS,
        rate: object = None,
        seconds: object = None,
        *,
        by: Caller = OPERATOR,
    ) -> tuple[Key, str]:
        """Make a key that expires after `seconds`, and return the key and its secret, which is
        stored nowhere. A key made without a rate or an expiry gets the rate or the expiry of the
        caller, if the caller has one.

        Raises InvalidKey, KeyExists, StorageFailed, and Forbidden for a key that may do more than
        the caller.
        """
        secret, now_ms = self._new_secret(KEY_PREFIX), self.now_ms()
        expires_ms = by.until_ms
        if seconds is not None:
            expires_ms = now_ms + 1_000 * parse_seconds(seconds, "key", 1, MAX_KEY_SECONDS)
        key = Key(
            name=parse_own_name(name, by),
            scope=parse_scope(scope),
            boards=parse_patterns(boards),
            created_ms=now_ms,
            sha256=sha256_of(secret),
            rate=by.most_rate(self._default_rate) if rate is None else parse_rate(rate),
            id=self._random(8).hex(),
            issuer=by.key_id,
            expires_ms=expires_ms,
        )
        if not by.holds(key, self._default_rate):
            raise Forbidden(f"{quoted(by.name)} cannot make a key that may do more than itself")

        def added(stored: KeySet) -> KeySet:
            if stored.named(key.name) is not None:
                raise KeyExists(f"there is a key {quoted(key.name)}")
            if len(stored.keys) >= MAX_KEYS:
                raise InvalidKey(f"there are {MAX_KEYS:,} keys already, the maximum")
            _ensure_room(stored, key.name)
            return self._with_signing(stored).adding(key)

        self._change(added)
        return key, secret

    def revoke(self, name: str, by: Caller = OPERATOR) -> None:
        """Remove a key, which invalidates its tokens. Raises UnknownKey, StorageFailed."""
        revoked: list[Key] = []

        def without(stored: KeySet) -> KeySet:
            revoked[:] = [self._managed(stored, name, by)]
            return stored.without(name)

        self._change(without)
        with suppress(LaurelsError):  # the time of the last use is only informative
            self._store.forget_last_used(revoked[0].id)

    def rotate(self, name: str, grace_seconds: object, by: Caller = OPERATOR) -> tuple[Key, str]:
        """Give a key a new secret, and return the key and the secret. The previous secret is
        accepted for another `grace_seconds` seconds.

        Raises UnknownKey, InvalidKey for a wrong `grace_seconds`, and StorageFailed.
        """
        grace_ms = 1_000 * parse_seconds(grace_seconds, "grace", 0, MAX_KEY_SECONDS)
        secret = self._new_secret(KEY_PREFIX)

        def rotated(stored: KeySet) -> KeySet:
            key = self._managed(stored, name, by)
            return stored.replacing(
                replace(
                    key,
                    sha256=sha256_of(secret),
                    previous_sha256=key.sha256,
                    previous_until_ms=self.now_ms() + grace_ms,
                )
            )

        changed = self._change(rotated).named(name)
        assert changed is not None
        return changed, secret

    def _managed(self, stored: KeySet, name: str, by: Caller) -> Key:
        key = stored.named(name)
        if key is None or not by.manages(key, self._default_rate):
            raise UnknownKey(f"there is no key {safe_repr(name)}")
        return key

    def _change(self, edit: Edit) -> KeySet:
        with self._changing:
            try:
                self._store.set_needs_keys()
                changed = self._store.change(edit)
            except LaurelsError:
                with suppress(LaurelsError):  # the change may have been stored despite the error
                    self.take(self._store.read())
                raise
            self.take(changed)
            return changed

    # Tokens

    def token(
        self,
        caller: Caller,
        boards: object,
        seconds: object,
        *,
        subject: object = None,
        rate: object = None,
        submission: SubmissionRule | None = None,
    ) -> tuple[str, int]:
        """Return a token that expires after `seconds`, and the time of its expiry. The token
        permits reading `boards`, or submitting by a rule. Raises InvalidKey for a field that is not
        valid, and Forbidden if the caller has only a token, or may not itself do what the token
        permits."""
        if caller.subject is not None:
            raise Forbidden("a token cannot issue another token: use a key")
        lasts_ms = 1_000 * parse_seconds(seconds, "token", 1, MAX_TOKEN_SECONDS)
        patterns = parse_patterns(boards)
        if not covers_all(caller.boards, patterns):
            raise Forbidden(
                f"{quoted(caller.name)} lacks access to some boards of {safe_repr(list(patterns))}"
            )
        if submission is not None:
            caller.ensure(LEVEL["write"], None)
        now_ms = self.now_ms()
        ends = [ms for ms in (now_ms + lasts_ms, caller.until_ms) if ms is not None]
        claims = Claims(
            caller.key_id,
            self._subject(subject, submission),
            now_ms,
            min(ends),
            patterns,
            parse_token_rate(rate, submission),
            submission,
        )
        return sign(claims, self._signing_secret()), claims.until_ms

    def _subject(self, subject: object, submission: SubmissionRule | None) -> str:
        if subject is not None:
            return parse_subject(subject)
        return self._random(8).hex() if submission is None else subject_of(submission.member)

    def rotate_signing(self) -> None:
        """Make a new secret that signs tokens from now on. Tokens signed with the current secret
        stay valid, and tokens signed with older secrets become invalid."""
        self._change(
            lambda stored: replace(stored, signing=(self._new_signing(), *stored.signing[:1]))
        )

    def _signing_secret(self) -> SigningSecret:
        if not self._stored.signing:
            self._change(self._with_signing)
        return self._stored.signing[0]

    def _with_signing(self, stored: KeySet) -> KeySet:
        return stored if stored.signing else replace(stored, signing=(self._new_signing(),))

    def _new_signing(self) -> SigningSecret:
        return SigningSecret(self._random(8).hex(), self._random(32).hex(), self.now_ms())

    def _new_secret(self, prefix: str) -> str:
        return prefix + base64.urlsafe_b64encode(self._random(32)).rstrip(b"=").decode()


def _ensure_room(stored: KeySet, name: str) -> None:
    """Raise InvalidKey if the new key `name` would exceed `MAX_MADE_KEYS` for one of its makers:
    the key that makes it, the maker of that key, and so on."""
    parts = name.split(".")
    for length in range(1, len(parts)):
        maker = stored.named(".".join(parts[:length]))
        if maker is not None and maker.boards != ALL_BOARDS:
            made = sum(key.name.startswith(f"{maker.name}.") for key in stored.keys)
            if made >= MAX_MADE_KEYS:
                raise InvalidKey(
                    f"the key {quoted(maker.name)} has made {MAX_MADE_KEYS:,} keys already, the "
                    "maximum"
                )
