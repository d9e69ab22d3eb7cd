"""TLS: a certificate and its key, checked before anything listens."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from rase_core.errors import ModelFileNotFound
from rase_core.model_file import regular_file

from rase_api.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class Tls:
    """The PEM files of a server: its certificate, with those that vouch for it, and the private key.

    Raises InvalidSetting, naming it, for files that cannot be read or do not belong together.
    """

    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        for name, path in (("tls_cert", self.certificate), ("tls_key", self.key)):
            _check_readable(name, path)
        self._check_pair()

    def _check_pair(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # A key under a password would have one asked for at the terminal.
            context.load_cert_chain(self.certificate, self.key, lambda: b"")
        except (ssl.SSLError, ValueError) as error:
            raise InvalidSetting("tls_cert or tls_key", self._expected(error)) from error

    def _expected(self, error: Exception) -> str:
        reason = getattr(error, "reason", None) or str(error)
        return (
            f"a certificate in PEM ({self.certificate}) and its own private key, without a password "
            f"({self.key}), but: {reason}"
        )


def tls_of(certificate: Path | str | None, key: Path | str | None) -> Tls | None:
    """Return the TLS of two settings, of which both are given or none; raises InvalidSetting."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing, given = ("tls_cert", "tls_key") if certificate is None else ("tls_key", "tls_cert")
        raise InvalidSetting(missing, f"a file, since there is a {given}")
    return Tls(Path(certificate), Path(key))


def _check_readable(name: str, path: Path) -> None:
    try:
        regular_file(path)
    except ModelFileNotFound as error:
        raise InvalidSetting(name, f"a file that can be read, but {path}: {error.reason}") from error
