"""Signatures of certificates: made by ``ssh-keygen -Y sign`` (``FILE.sig``) or ``minisign`` (``FILE.minisig``), and checked."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

_NAMESPACE = "korealbert-score"
"""The purpose of a signature: one made for another purpose does not sign a certificate."""

_SSH, _MINISIGN = ".sig", ".minisig"

_MINISIGN_COMMENT = "untrusted comment:"
"""How keys and signatures of minisign begin."""
_MINISIGN_TRUSTED = b"trusted comment:"
"""How the third line of a signature of minisign begins; keys have two lines."""
_MINISIGN_KEY = re.compile(r"RW[A-Za-z0-9+/]{54}")
"""A public key: the letters Ed, 8 bytes of a number, 32 of the key, in base64."""
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_LIMITS = re.compile(r"(?i)valid-before|valid-after|namespaces|cert-authority")
"""Options of ``allowed_signers`` and ``authorized_keys``."""
_SSH_KEY = re.compile(r"(?:^|\s)((?:sk-)?(?:ssh|ecdsa)-[\w.@-]+\s+AAAA[A-Za-z0-9+/]+=*)(?=\s|$)")
"""Type and key in a line; before them there may be names and options, behind them a comment."""
_SSH_BEGINS = b"-----BEGIN SSH SIGNATURE-----"


class Finding(NamedTuple):
    """One line of a check."""

    verdict: Literal["agrees", "differs", "note"]
    """``note``: what decides nothing, as another version of a package, or what cannot be checked here."""
    text: str


def signatures(path: Path) -> tuple[Path, Path]:
    """The names of a certificate's signatures, of ssh and of minisign."""
    return Path(f"{path}{_SSH}"), Path(f"{path}{_MINISIGN}")


def is_signature(path: Path) -> bool:
    """Whether a file is a signature, of ssh or of minisign; keys of minisign begin as its signatures do."""
    with path.open("rb") as handle:
        lines = handle.read(4096).splitlines()
    ssh, minisign = lines[:1] == [_SSH_BEGINS], lines[2:3] and lines[2].startswith(_MINISIGN_TRUSTED)
    return bool(ssh or minisign)


def program_of(key: Path) -> str:
    """The program that signs with a key. Raises ValueError where the key or the program is not there."""
    if not key.is_file():
        raise ValueError(f"{key}: no such key; make one with `ssh-keygen -t ed25519 -f {key}`")
    with key.open("rb") as handle:
        wanted = "minisign" if handle.read(32).startswith(_MINISIGN_COMMENT.encode()) else "ssh-keygen"
    return _found(wanted)


def _found(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise ValueError(f"{program}: not on this machine; install it, or leave the signature out")
    return found


def signed(path: Path, content: bytes, key: Path, program: str) -> tuple[Path, bytes]:
    """The signature of a certificate that is to be ``path``: its name and its bytes.

    A program that wants a passphrase asks for it at the terminal. Raises ValueError where it does not sign.
    """
    ssh, minisign = signatures(path)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / path.name  # minisign signs the name too.
        copy.write_bytes(content)
        if Path(program).name == "minisign":
            arguments, name = [program, "-S", "-s", str(key), "-m", str(copy), "-x", f"{copy}{_MINISIGN}"], minisign
            done = subprocess.run(arguments, capture_output=True, check=False)
        else:
            arguments, name = [program, "-Y", "sign", "-q", "-f", str(key), "-n", _NAMESPACE], ssh
            done = subprocess.run(arguments, input=content, capture_output=True, check=False)
        if done.returncode:
            raise ValueError(f"{key}: {path} is not signed ({_last_line(done)}); no certificate was written")
        return name, done.stdout if name == ssh else Path(f"{copy}{_MINISIGN}").read_bytes()


def check_signature(path: Path, key: Path | None) -> Finding:
    """Whether a certificate is signed, and by whom: by the program of the key, where one is given.

    Signatures lie beside the certificate, or where it is a link beside what that leads to. Raises ValueError for a file that
    holds no public key.
    """
    if key is not None and not key.is_file():
        raise ValueError(f"{key}: no such public key; name the file that ends in .pub")
    ssh, minisign = (_beside(path, number) for number in (0, 1))
    public = "" if key is None else _minisign_key(key)
    if key is not None and not (minisign if public else ssh).is_file():
        told = f"there is none; {ssh} or {minisign} belongs to it"
        if ssh.is_file():
            told = f"there is none of minisign, whose key is in {key}; {minisign} belongs to it, {ssh} is of a key of ssh"
        elif minisign.is_file():
            told = f"there is none of ssh, whose key is in {key}; {ssh} belongs to it, {minisign} is of a key of minisign"
        return Finding("differs", f"signature: {told}")
    if public:
        program = _found("minisign")
        done = _run([program, "-V", "-q", "-P", public, "-m", str(path), "-x", str(minisign)], path)
        return _verdict(done, f"by the key in {key}")
    if not ssh.is_file():
        told = f"{minisign} is not checked; name the public key with --key"
        return Finding(
            "note", f"signature: {told if minisign.is_file() else 'there is none, so that anybody may have written it'}"
        )
    program = _found("ssh-keygen")
    if key is None:
        done = _run([program, "-Y", "check-novalidate", "-n", _NAMESPACE, "-s", str(ssh)], path)
        by = done.stdout.decode(errors="replace").strip().partition(" with ")[2]
        return _verdict(done, f"by {by}; whose key that is, --key says")
    with tempfile.TemporaryDirectory() as scratch:
        lines = _public_keys(key, program, Path(scratch))
        allowed = Path(scratch) / "allowed_signers"
        allowed.write_text("".join(f'signer namespaces="{_NAMESPACE}" {line}\n' for line in lines), "utf-8")
        done = _run([program, "-Y", "verify", "-f", str(allowed), "-I", "signer", "-n", _NAMESPACE, "-s", str(ssh)], path)
    return _verdict(done, f"by the key in {key}")


def _beside(path: Path, number: int) -> Path:
    """The signature of a certificate with this number in ``signatures``."""
    named, target = signatures(path)[number], signatures(path.resolve())[number]
    return target if target.is_file() and not named.is_file() else named


def _lines(key: Path) -> list[str]:
    """The lines of a key file as Unix writes them, whatever editor saved it."""
    return [line.strip() for line in key.read_bytes().decode("utf-8-sig", "replace").splitlines() if line.strip()]


def _minisign_key(key: Path) -> str:
    """The public key of minisign in a file, with its comment or alone; empty where it holds none."""
    lines = [line for line in _lines(key) if not line.startswith(_MINISIGN_COMMENT)]
    return lines[0] if len(lines) == 1 and _MINISIGN_KEY.fullmatch(lines[0]) else ""


def _public_keys(key: Path, program: str, scratch: Path) -> list[str]:
    """The public keys of ssh in a file, also of lines of ``authorized_keys`` and ``allowed_signers``, without what these say
    of a key. Raises ValueError where a line is none, and for one that limits what its key may sign or when."""
    remedy = "name the file that ends in .pub, as ssh-keygen wrote it"
    lines = [line for line in _lines(key) if not line.startswith("#")]
    if not lines:
        raise ValueError(f"{key}: holds no public key; {remedy}")
    keys = []
    for number, line in enumerate(lines):
        bare = _QUOTED.sub('""', line)
        alone, found = scratch / f"{number}.pub", _SSH_KEY.search(bare)
        if limit := _LIMITS.search(bare[: found.start()] if found else bare):
            raise ValueError(f"{key}: {limit[0]} limits its key, which is not checked here; {remedy}")
        alone.write_text(f"{found[1] if found else line}\n", "utf-8")
        if not found or subprocess.run([program, "-l", "-f", str(alone)], capture_output=True, check=False).returncode:
            raise ValueError(f"{key}: {line[:40]!r} is no public key of ssh; {remedy}")
        keys.append(found[1])
    return keys


def _run(arguments: list[str], path: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(arguments, input=path.read_bytes(), capture_output=True, check=False)


def _verdict(done: subprocess.CompletedProcess[bytes], good: str) -> Finding:
    if done.returncode == 0:
        return Finding("agrees", f"signature: good, {good}")
    return Finding("differs", f"signature: not good, or {good.replace('by', 'not by', 1)} ({_last_line(done)})")


def _last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    """The last line that a failed program printed, or its exit status."""
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"
