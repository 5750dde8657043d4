"""Make and check signatures of certificates, with ``ssh-keygen -Y sign`` (``FILE.sig``) or ``minisign`` (``FILE.minisig``)."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

_NAMESPACE = "korealbert-score"
"""Purpose of a signature: ssh-keygen refuses a signature that was made for another purpose."""

_SSH, _MINISIGN = ".sig", ".minisig"

_MINISIGN_COMMENT = "untrusted comment:"
"""First words of minisign's keys and signatures."""
_MINISIGN_TRUSTED = b"trusted comment:"
"""First words of the third line of minisign's signatures; keys have two lines."""
_MINISIGN_KEY = re.compile(r"RW[A-Za-z0-9+/]{54}")
"""A public key in base64: the letters Ed, an 8-byte number, a 32-byte key."""
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_LIMITS = re.compile(r"(?i)valid-before|valid-after|namespaces|cert-authority")
"""Options of ``allowed_signers`` and ``authorized_keys``."""
_SSH_KEY = re.compile(r"(?:^|\s)((?:sk-)?(?:ssh|ecdsa)-[\w.@-]+\s+AAAA[A-Za-z0-9+/]+=*)(?=\s|$)")
"""Type and key in a line. Names and options may precede them, a comment may follow."""
_SSH_FIRST_LINE = b"-----BEGIN SSH SIGNATURE-----"


class Finding(NamedTuple):
    """One line of a check."""

    verdict: Literal["agrees", "differs", "note"]
    """``note``: something irrelevant for the verdict, such as another package version, or something that cannot be checked."""
    text: str


def signatures(path: Path) -> tuple[Path, Path]:
    """Return the paths of a certificate's ssh and minisign signatures."""
    return Path(f"{path}{_SSH}"), Path(f"{path}{_MINISIGN}")


def is_signature(path: Path) -> bool:
    """Return whether a file is an ssh or minisign signature; minisign's keys have the same first line as its signatures."""
    with path.open("rb") as handle:
        lines = handle.read(4096).splitlines()
    is_ssh, is_minisign = lines[:1] == [_SSH_FIRST_LINE], lines[2:3] and lines[2].startswith(_MINISIGN_TRUSTED)
    return bool(is_ssh or is_minisign)


def program_of(key: Path) -> str:
    """Return the program that signs with a key. Raises ValueError if the key or the program is missing."""
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
    """Sign the content of a certificate that will be at ``path``; returns path and content of the signature.

    The program may ask for a passphrase at the terminal. Raises ValueError if it does not sign.
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
    """Check whether a certificate is signed, and by whom.

    Signatures are beside the certificate or, if it is a link, beside its target. Raises ValueError if ``key`` is not a file
    with a public key.
    """
    if key is not None and not key.is_file():
        raise ValueError(f"{key}: no such public key; name the file that ends in .pub")
    ssh, minisign = (_beside(path, number) for number in (0, 1))
    public = "" if key is None else _minisign_key(key)
    if key is not None and not (minisign if public else ssh).is_file():
        problem = f"there is none; it would be {ssh} or {minisign}"
        if ssh.is_file():
            problem = f"{key} is a key of minisign, but there is no {minisign}; {ssh} is a signature of ssh"
        elif minisign.is_file():
            problem = f"{key} is a key of ssh, but there is no {ssh}; {minisign} is a signature of minisign"
        return Finding("differs", f"signature: {problem}")
    if public:
        program = _found("minisign")
        done = _run([program, "-V", "-q", "-P", public, "-m", str(path), "-x", str(minisign)], path)
        return _verdict(done, f"by the key in {key}")
    if not ssh.is_file():
        unchecked = f"{minisign} is not checked; name the public key with --key"
        unsigned = "there is none, so that anybody may have written the certificate"
        return Finding("note", f"signature: {unchecked if minisign.is_file() else unsigned}")
    program = _found("ssh-keygen")
    if key is None:
        done = _run([program, "-Y", "check-novalidate", "-n", _NAMESPACE, "-s", str(ssh)], path)
        by = done.stdout.decode(errors="replace").strip().partition(" with ")[2]
        return _verdict(done, f"by {by}; check whose key that is with --key")
    with tempfile.TemporaryDirectory() as scratch:
        lines = _public_keys(key, program, Path(scratch))
        allowed = Path(scratch) / "allowed_signers"
        allowed.write_text("".join(f'signer namespaces="{_NAMESPACE}" {line}\n' for line in lines), "utf-8")
        done = _run([program, "-Y", "verify", "-f", str(allowed), "-I", "signer", "-n", _NAMESPACE, "-s", str(ssh)], path)
    return _verdict(done, f"by the key in {key}")


def _beside(path: Path, number: int) -> Path:
    """Return the path of a certificate's signature by its number in ``signatures``."""
    named, target = signatures(path)[number], signatures(path.resolve())[number]
    return target if target.is_file() and not named.is_file() else named


def _lines(key: Path) -> list[str]:
    """Return the lines of a key file that are not blank, without byte order mark and surrounding blanks."""
    return [line.strip() for line in key.read_bytes().decode("utf-8-sig", "replace").splitlines() if line.strip()]


def _minisign_key(key: Path) -> str:
    """Return the minisign public key in a file, or "" if there is none."""
    lines = [line for line in _lines(key) if not line.startswith(_MINISIGN_COMMENT)]
    return lines[0] if len(lines) == 1 and _MINISIGN_KEY.fullmatch(lines[0]) else ""


def _public_keys(key: Path, program: str, scratch: Path) -> list[str]:
    """Return the ssh public keys in a file, which may be an ``authorized_keys`` or ``allowed_signers`` file.

    Raises ValueError if a line is not a key, or if it limits what its key may sign or when.
    """
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
    """Return the last line that a failed program printed, or its exit status."""
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"
