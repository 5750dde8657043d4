"""Signatures of certificates: what they cover, and which keys make and check them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.finetune.scores.certifying import PREDICTIONS, call, change, rewrite, score


def test_a_signature_is_valid_only_for_its_key_and_bytes(desk: Path, keys: Path) -> None:
    assert score(desk, "--sign", keys / "mine")[0] == 0
    path = desk / "score.json"
    status, lines = call("verify-score", path, "--key", keys / "mine.pub")
    assert status == 0 and lines[0].startswith("agrees  signature: good, by the key in")
    status, lines = call("verify-score", path)
    assert status == 0 and "SHA256:" in lines[0] and lines[0].startswith("agrees  signature: good")
    status, lines = call("verify-score", path, "--key", keys / "other.pub")
    assert status == 1 and lines[0].startswith("differs signature: ")
    signed = path.read_bytes()
    rewrite(path, change("code.version", "9"))
    assert call("verify-score", path)[0] == call("verify-score", path, "--key", keys / "mine.pub")[0] == 1
    path.write_bytes(signed)
    # A signature by the same key for another purpose is not accepted.
    command = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(keys / "mine"), "-n", "file"]
    other = subprocess.run(command, input=signed, capture_output=True, check=True).stdout
    Path(f"{path}.sig").write_bytes(other)
    assert call("verify-score", path)[0] == call("verify-score", path, "--key", keys / "mine.pub")[0] == 1
    Path(f"{path}.sig").unlink()
    status, lines = call("verify-score", path, "--key", keys / "mine.pub")
    assert status == 1 and lines[0].startswith("differs signature: there is none")


def test_an_earlier_signature_does_not_stay_beside_a_new_certificate(desk: Path, keys: Path) -> None:
    score(desk, "--sign", keys / "mine")
    assert (desk / "score.json.sig").is_file()
    score(desk)
    assert not (desk / "score.json.sig").exists()


def test_a_key_that_cannot_sign_is_reported(desk: Path, tmp_path: Path) -> None:
    assert score(desk, "--sign", tmp_path / "none")[0] == 2 and not (desk / "score.json").exists()
    (tmp_path / "empty").write_text("")
    if shutil.which("ssh-keygen"):
        status, lines = score(desk, "--sign", tmp_path / "empty")
        assert status == 2 and any("is not signed" in line for line in lines)
    assert call("score", "nsmc", desk / "gold/test.txt", desk / "given.jsonl", "--sign", tmp_path / "empty")[0] == 2


def test_a_certificate_that_cannot_be_signed_leaves_everything_as_it_was(desk: Path, keys: Path) -> None:
    score(desk, "--sign", keys / "mine")
    earlier = {name: (desk / name).read_bytes() for name in ("score.json", "score.json.sig")}
    (desk / "bad").write_text("hello")
    (desk / "given.jsonl").write_text(PREDICTIONS.replace("0}", "1}"))
    for name in ("score.json", "new.json"):
        status, lines = score(desk, "--sign", desk / "bad", "--certificate", desk / name)
        assert status == 2 and any("no certificate was written" in line for line in lines)
    assert {name: (desk / name).read_bytes() for name in earlier} == earlier
    assert not [path.name for path in desk.iterdir() if path.name.startswith((".", "new"))]


def test_a_public_key_is_read_from_any_editor_and_other_files_are_reported(desk: Path, keys: Path) -> None:
    score(desk, "--sign", keys / "mine")
    public = (keys / "mine.pub").read_bytes()
    (keys / "saved.pub").write_bytes(b"\xef\xbb\xbf# mine\r\n" + public.replace(b"\n", b"\r\n"))
    assert call("verify-score", desk / "score.json", "--key", keys / "saved.pub")[0] == 0
    for content, message in (
        (b"", "holds no public key"),
        (public.decode().encode("utf-16"), "is no public key of ssh"),
        ((keys / "mine").read_bytes(), "is no public key of ssh"),
    ):
        (keys / "odd").write_bytes(content)
        status, lines = call("verify-score", desk / "score.json", "--key", keys / "odd")
        assert status == 2 and any(str(keys / "odd") in line and message in line for line in lines), lines


def test_keys_may_be_in_authorized_keys_and_allowed_signers(desk: Path, keys: Path) -> None:
    score(desk, "--sign", keys / "mine")
    public = (keys / "mine.pub").read_text().strip()
    other = (keys / "other.pub").read_text().strip()
    for line in (f"me@example.org {public}", f'no-pty,command="a {other}" {public}'):
        (keys / "lines").write_text(f"# mine\n{(keys / 'other.pub').read_text()}{line}\n")
        status, lines = call("verify-score", desk / "score.json", "--key", keys / "lines")
        assert status == 0 and lines[0].startswith("agrees  signature: good"), (line, lines)
    (keys / "lines").write_text(f"me@example.org {(keys / 'other.pub').read_text()}")
    assert call("verify-score", desk / "score.json", "--key", keys / "lines")[0] == 1
    for limit in ('namespaces="file"', 'valid-before="20200101"'):
        (keys / "lines").write_text(f"me {limit} {public}")
        status, lines = call("verify-score", desk / "score.json", "--key", keys / "lines")
        assert status == 2 and "limits its key, which is not checked here; name the file that ends in .pub" in lines[0]


MINISIGN_KEY = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"


def test_the_key_says_which_program_checks(desk: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score(desk, "--sign", keys / "mine")
    path, public = desk / "score.json", keys / "minisign.pub"
    for content in (f"untrusted comment: minisign public key\n{MINISIGN_KEY}\n", f"{MINISIGN_KEY}\n"):
        public.write_text(content)
        status, lines = call("verify-score", path, "--key", public)
        message = f"{public} is a key of minisign, but there is no"
        assert status == 1 and lines[0].startswith(f"differs signature: {message}") and "score.json.minisig" in lines[0]
    (keys / "bin").mkdir()
    program = keys / "bin/minisign"
    program.write_text(f'#!/bin/sh\ncase "$*" in *"-P {MINISIGN_KEY}"*score.json.minisig*) exit 0;; esac\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{keys / 'bin'}:{os.environ['PATH']}")
    Path(f"{path}.minisig").write_text("untrusted comment: signature\nRW\ntrusted comment: t\nRW\n")
    for key in (public, keys / "mine.pub"):
        status, lines = call("verify-score", path, "--key", key)
        assert status == 0 and lines[0].startswith(f"agrees  signature: good, by the key in {key}"), lines
    Path(f"{path}.sig").unlink()
    status, lines = call("verify-score", path, "--key", keys / "mine.pub")
    assert status == 1 and "is a key of ssh, but there is no" in lines[0]


def test_a_link_to_a_certificate_has_its_signature_and_its_files(desk: Path, keys: Path) -> None:
    score(desk, "--sign", keys / "mine")
    (desk / "far").mkdir()
    for link in (desk / "link.json", desk / "far/link.json"):
        link.symlink_to(desk / "score.json")
        status, lines = call("verify-score", link, "--key", keys / "mine.pub")
        assert status == 0 and lines[0].startswith("agrees  signature: good"), lines


@pytest.mark.skipif(shutil.which("minisign") is None, reason="minisign is not installed here")
def test_minisign_itself_signs_and_checks(desk: Path, tmp_path: Path) -> None:
    for name in ("mine", "other"):
        made = ["minisign", "-G", "-W", "-p", str(tmp_path / f"{name}.pub"), "-s", str(tmp_path / name)]
        subprocess.run(made, capture_output=True, check=True)
    assert score(desk, "--sign", tmp_path / "mine")[0] == 0
    assert (desk / "score.json.minisig").is_file()
    status, lines = call("verify-score", desk / "score.json", "--key", tmp_path / "mine.pub")
    assert status == 0 and lines[0].startswith("agrees  signature: good, by the key in")
    status, lines = call("verify-score", desk / "score.json", "--key", tmp_path / "other.pub")
    assert status == 1 and lines[0].startswith("differs signature: not good, or not by the key in")
    rewrite(desk / "score.json", change("code.version", "9"))
    assert call("verify-score", desk / "score.json", "--key", tmp_path / "mine.pub")[0] == 1
