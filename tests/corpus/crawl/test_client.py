"""The client connects only to checked addresses; errors do not reveal which ports of private ones are open."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from korealbert.artifact import Runtime, build
from korealbert.corpus.crawl import client as clients
from korealbert.corpus.crawl.client import Client, NoAnswer, PrivateAddress, ascii_url
from korealbert.corpus.crawl.fetch import STAGE, FetchError, FetchSpec
from tests.corpus.crawl.site import redirect, running, text

LISTEN_SECONDS = 30.0


def client(*private_hosts: str, verify: bool = True) -> Client:
    return Client(user_agent="test", may_be_private=private_hosts.__contains__, timeout_seconds=LISTEN_SECONDS, verify=verify)


def read(of: Client, url: str) -> bytes:
    with contextlib.closing(of):
        return of.read(url, (), 1 << 20, LISTEN_SECONDS).body


@contextlib.contextmanager
def ports() -> Iterator[tuple[socket.socket, int]]:
    """Yield an open and a closed port on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as opened, socket.socket() as closed:
        opened.setblocking(False)
        closed.bind(("127.0.0.1", 0))
        yield opened, closed.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"])
@pytest.mark.parametrize("by_redirect", [False, True])
def test_an_open_and_a_closed_private_port_give_one_error(host: str, by_redirect: bool, tmp_path: Path) -> None:
    with ports() as (opened, closed), running({}) as site:
        messages = []
        for port in (opened.getsockname()[1], closed):
            site.pages["/moved"] = redirect(f"http://{host}:{port}/dump.bin")
            url = f"{site.root}/moved" if by_redirect else f"http://{host}:{port}/dump.bin"
            allowed = [] if host == "127.0.0.1" else ["127.0.0.1"]
            if by_redirect and not allowed:
                url, allowed = url.replace("127.0.0.1", "localhost"), ["localhost"]
            fields = {"url": url, "name": "dump.bin", "retries": 0, "backoff_seconds": 0.0, "private_hosts": allowed}
            with pytest.raises(FetchError, match="lies at the private address") as caught:
                build(STAGE, FetchSpec.model_validate(fields), {}, Runtime(store=tmp_path / str(port)))
            messages.append(str(caught.value).replace(str(port), "PORT").partition("private address")[2])
        assert messages[0] == messages[1]
        with pytest.raises(BlockingIOError):
            opened.accept()  # nothing connected


class Names(http.server.BaseHTTPRequestHandler):
    """Answers with the Host header of the request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.headers["Host"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def naming(address: str, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer((address, port), Names)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Resolve many.example to 127.0.0.1, which is private, and 127.0.0.2, which counts as public here."""
    real, asked = socket.getaddrinfo, []

    def resolve(host: str, port: int, *rest: Any, **options: Any) -> Any:
        if host != "many.example":
            return real(host, port, *rest, **options)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.1", "127.0.0.2")]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(clients, "is_public", lambda address: address == "127.0.0.2")
    return asked


def test_of_several_addresses_only_the_public_one_is_connected_to(resolved: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as private:
        private.setblocking(False)
        port = private.getsockname()[1]
        with naming("127.0.0.2", port):
            assert read(client(), f"http://many.example:{port}/") == f"many.example:{port}".encode()
        with pytest.raises(BlockingIOError):
            private.accept()
    assert resolved == ["many.example"]  # resolved only once


def certificate(directory: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(issuer_name=subject, subject_name=subject, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = directory / "server.pem"
    path.write_bytes(private + made.public_bytes(pem))
    return path


def test_tls_names_the_host_and_checks_its_certificate(
    resolved: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = certificate(tmp_path, "many.example")
    named: list[str | None] = []
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    server.sni_callback = lambda _, name, __: named.append(name)
    with naming("127.0.0.2", tls=server) as port:
        url, host = f"https://many.example:{port}/", f"many.example:{port}".encode()
        with pytest.raises(NoAnswer, match="self-signed"):
            read(client(), url)
        assert read(client(verify=False), url) == host
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        assert read(client(), url) == host
        with pytest.raises(NoAnswer, match=r"127\.0\.0\.2"):
            read(client(), f"https://127.0.0.2:{port}/")
    assert named == ["many.example"] * 3 + [None]


def test_a_bad_certificate_is_not_tried_again(tmp_path: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate(tmp_path, "localhost"))
    with naming("127.0.0.1", tls=server) as port:
        fields = {"url": f"https://127.0.0.1:{port}/x", "private_hosts": ["127.0.0.1"], "retries": 0}
        with pytest.raises(FetchError, match=r"self-signed.*fetch it by hand"):
            build(STAGE, FetchSpec.model_validate(fields), {}, Runtime(store=tmp_path / "store"))


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with running({"/x": text("본문")}) as site, running({}) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.root)
        assert read(client("127.0.0.1"), f"{site.root}/x").decode() == "본문"
        assert not proxy.hits


@contextlib.contextmanager
def flooding(head: bytes, again: bytes) -> Iterator[str]:
    """A server that sends ``again`` until the client closes the connection."""

    def flood(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(head)
            while True:
                connection.sendall(again)
                time.sleep(0.001)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=flood, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join()


def test_an_answer_that_drips_ends_with_its_time() -> None:
    with flooding(b"HTTP/1.1 200 OK\r\n\r\n", b"x") as url, contextlib.closing(client("127.0.0.1")) as one:
        with pytest.raises(NoAnswer) as caught:
            one.read(url, (), 1 << 30, 0.5)
        assert caught.value.reason == "timeout"


@pytest.mark.parametrize(("head", "again"), [(b"HTTP/1.1 200 OK\r\nX: ", b"x"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n")])
def test_headers_without_end_are_given_up_in_a_fetch_of_any_length(head: bytes, again: bytes) -> None:
    one = Client(user_agent="test", may_be_private=["127.0.0.1"].__contains__, timeout_seconds=0.1)
    with flooding(head, again) as url, contextlib.closing(one), pytest.raises(NoAnswer), one.get(url):
        raise AssertionError("no answer")


def test_no_answer_says_why() -> None:
    with ports() as (_, closed), contextlib.closing(client("127.0.0.1")) as one:
        with pytest.raises(NoAnswer, match="refused"):
            one.read(f"http://127.0.0.1:{closed}/", (), 1, LISTEN_SECONDS)
        with pytest.raises(NoAnswer):
            one.read("http://no-such-host.invalid/", (), 1, LISTEN_SECONDS)
        with pytest.raises(NoAnswer):
            one.read("ftp://127.0.0.1/", (), 1, LISTEN_SECONDS)
        with pytest.raises(PrivateAddress) as caught:
            one.read(f"http://localhost:{closed}/", (), 1, LISTEN_SECONDS)
    assert ipaddress.ip_address(caught.value.address).is_loopback


def test_addresses_are_sent_in_ascii() -> None:
    assert ascii_url("https://한국.example:8/가 나/%41?제=목#부분") == (
        "https://xn--3e0b707e.example:8/%EA%B0%80%20%EB%82%98/%41?%EC%A0%9C=%EB%AA%A9"
    )
