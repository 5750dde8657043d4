"""OpenLineage events: one start and one end for a run and each of its stages, with what they read and wrote."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request
from uuid import UUID

import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, Runtime, Store, build
from korealbert.artifact.subprocess_build import Job
from korealbert.flows.lineage import Lineage

TINY = Path(__file__).parents[1] / "recipes" / "tiny.toml"


def send_events(target: str, store: Path, *, broken: bool = False) -> dict[str, Artifact]:
    """Build the tiny recipe up to clean/news while events go to a target; its second stage fails if ``broken``."""
    lineage = Lineage(target, "tiny")
    built: dict[str, Artifact] = {}
    nodes = recipes.until(recipes.graph(recipes.load(TINY)), "clean/news")
    with lineage.of_run():
        for label, node in nodes.items():
            inputs = {role: built[other] for role, other in node.inputs.items()}
            events = lineage.of_stage(Job(node.stage, node.spec, inputs, label, rerun=False), store)
            events.start()
            if broken and label == "clean/news":
                error = ValueError("no such rule")
                events.fail(error)
                raise error
            done = build(node.stage, node.spec, inputs, Runtime(store=store, workers=1), label=label)
            events.complete(done)
            built[label] = done.artifact
    return built


def check(event: dict[str, Any]) -> None:
    """Check what OpenLineage.json 2-0-2 requires of an event and of its facets."""
    assert event.keys() == {"eventType", "eventTime", "run", "job", "inputs", "outputs", "producer", "schemaURL"}
    assert event["schemaURL"] == "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
    assert event["eventTime"].endswith("Z") and UUID(event["run"]["runId"])
    assert event["job"]["namespace"] and event["job"]["name"]
    datasets = [*event["inputs"], *event["outputs"]]
    holders = [event["run"]["facets"], event["job"]["facets"], *(d["facets"] for d in datasets)]
    holders += [output.get("outputFacets", {}) for output in event["outputs"]]
    for facet in (facet for holder in holders for facet in holder.values()):
        assert facet["_producer"].startswith("https://") and facet["_schemaURL"].startswith(
            "https://openlineage.io/spec/facets/"
        )
    for dataset in datasets:
        assert dataset["namespace"] == "file" and Path(dataset["name"]).is_absolute()


def test_a_file_gets_a_line_for_each_start_and_end(tmp_path: Path) -> None:
    file, store = tmp_path / "events.jsonl", tmp_path / "store"
    built = send_events(str(file), store)
    send_events(str(file), store)
    events = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for event in events:
        check(event)
    names = [(event["job"]["name"], event["eventType"]) for event in events]
    once = [
        ("tiny", "START"),
        *((f"tiny.{label}", kind) for label in built for kind in ("START", "COMPLETE")),
        ("tiny", "COMPLETE"),
    ]
    assert names == once * 2
    assert len({event["run"]["runId"] for event in events}) == 2 * (1 + len(built)), "one id for start and end"
    ends = [event for event in events if event["eventType"] == "COMPLETE" and "." in event["job"]["name"]]
    assert [event["run"]["facets"]["tags"]["tags"][0]["value"] for event in ends] == ["false", "false", "true", "true"]
    clean = ends[1]
    assert clean["run"]["facets"]["parent"]["run"]["runId"] == events[0]["run"]["runId"]
    read, (written,) = {d["name"]: d["facets"] for d in clean["inputs"]}, clean["outputs"]
    assert read[str(built["extract/news"].path)]["version"]["datasetVersion"] == built["extract/news"].output_digest
    assert any(name.endswith("rules/news.toml") for name in read), "files that the spec names are read too"
    columns = [column["name"] for column in written["facets"]["schema"]["fields"]]
    assert columns[:3] == ["id", "source", "text"] or "text" in columns
    statistics = written["outputFacets"]["outputStatistics"]
    assert statistics["rowCount"] == built["clean/news"].stats["documents_out"] and statistics["size"] > 0


def test_a_failure_is_told_of_the_stage_and_of_the_run(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    with pytest.raises(ValueError, match="no such rule"):
        send_events(str(file), tmp_path / "store", broken=True)
    *_, stage, run = (json.loads(line) for line in file.read_text("utf-8").splitlines())
    assert (stage["job"]["name"], stage["eventType"], run["eventType"]) == ("tiny.clean/news", "FAIL", "FAIL")
    assert stage["run"]["facets"]["errorMessage"]["message"] == "no such rule"
    assert Path(stage["outputs"][0]["name"]).name.startswith("clean-") and not Path(stage["outputs"][0]["name"]).exists()


@contextmanager
def catalogue(status: int) -> Iterator[tuple[str, list[tuple[str | None, dict[str, Any]]]]]:
    """Run a server that accepts or refuses events; yields its address and what it received."""
    got: list[tuple[str | None, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.headers["Authorization"], json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api/v1/lineage", got
        server.shutdown()


def test_events_are_posted_with_the_key_and_a_refusal_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "secret")
    with catalogue(201) as (address, got):
        send_events(address, tmp_path / "store")
    assert [event["eventType"] for _, event in got] == ["START", "START", "COMPLETE", "START", "COMPLETE", "COMPLETE"]
    assert {key for key, _ in got} == {"Bearer secret"}
    with catalogue(500) as (address, got):
        assert send_events(address, tmp_path / "store")
    assert caplog.text.count("takes no events") == 1 and "secret" not in caplog.text


def test_a_host_that_does_not_answer_is_waited_for_three_times(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    requests: list[Request] = []

    def unreachable(request: Request, timeout: float) -> None:
        requests.append(request)
        raise URLError(TimeoutError("timed out"))

    monkeypatch.setattr("korealbert.flows.lineage.urlopen", unreachable)
    lineage = Lineage("http://host/x")
    for _ in range(5):
        lineage.send("START", "", "", "")
    assert len(requests) == 3 and caplog.text.count("is sent no further events") == 1


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://host/경로", "only ASCII and no blanks"),
        ("http://host/a b", "only ASCII and no blanks"),
        ("http://[::1/x", "is not an address \\(Invalid IPv6 URL\\)"),
        ("http://host:99999/x", "is not an address \\(Port out of range"),
        ("http:///x", "it names no host"),
        ("http://me:geheim@host/x", "--lineage: the address contains a user"),
    ],
)
def test_an_address_that_cannot_be_is_told_at_once(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        Lineage(address)
    assert "geheim" not in str(error.value)


@pytest.mark.parametrize("key", ["geheim\n", "geheim열쇠", "ge heim"])
def test_a_key_that_cannot_be_sent_is_told_and_never_printed(
    key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lineage = Lineage("http://127.0.0.1:1/x")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", key)
    with pytest.raises(ValueError, match="OPENLINEAGE_API_KEY has blanks, line breaks or") as error:
        Lineage("http://127.0.0.1:1/x")
    assert "geheim" not in str(error.value)
    lineage.send("START", "", "", "")
    assert "takes no events" in caplog.text and "geheim" not in caplog.text
    Lineage(None)


def test_a_target_that_cannot_be_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is neither a file nor an address"):
        Lineage("kafka://events")
    with pytest.raises(ValueError, match=r"events\.jsonl: no events can be written here \(No such file or directory\)"):
        Lineage(str(tmp_path / "none" / "events.jsonl"))
    Lineage(None).send("START", "", "", "")
    assert Store(tmp_path).artifacts() == []


def test_events_are_added_to_events_and_to_no_other_text(tmp_path: Path) -> None:
    text, events = tmp_path / "texts.jsonl", tmp_path / "events.jsonl"
    text.write_text('{"text": "도서관"}\n', "utf-8")
    with pytest.raises(ValueError, match="has other content than events; name another file"):
        Lineage(str(text))
    for _ in range(2):
        Lineage(str(events)).send("START", "run", "job", "RUN")
    assert len(events.read_text("utf-8").splitlines()) == 2
    assert text.read_text("utf-8") == '{"text": "도서관"}\n'


def test_events_may_go_to_an_output_that_is_a_file_with_other_lines(tmp_path: Path) -> None:
    output = tmp_path / "log.txt"
    with output.open("wb") as file:
        file.write(b"5 of 5 stages to build\n")
        file.flush()
        Lineage(f"/dev/fd/{file.fileno()}").send("START", "run", "job", "RUN")
    assert len(output.read_text("utf-8").splitlines()) == 2


def test_an_input_that_vanishes_changes_neither_the_end_of_a_stage_nor_its_events(
    sample_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    raw, store, file = tmp_path / "news.jsonl", tmp_path / "store", tmp_path / "events.jsonl"
    content = (sample_dir / "news.jsonl").read_bytes()
    raw.write_bytes(content)
    (node,) = recipes.until(
        recipes.graph(recipes.load(TINY, overrides={"extract.news.paths": [str(raw)]})), "extract/news"
    ).values()
    lineage, job = Lineage(str(file), "tiny"), Job(node.stage, node.spec, {}, node.label, rerun=False)
    lost = lineage.of_stage(job, store)
    lost.start()
    raw.unlink()
    lost.fail(ValueError("no such rule"))
    lineage.of_stage(job, store).fail(ValueError("the file is gone"))
    assert caplog.text.count("lineage: no ") == 2, "neither START nor FAIL can name what would be written"
    raw.write_bytes(content)
    built = lineage.of_stage(job, store)
    built.start()
    done = build(node.stage, node.spec, {}, Runtime(store=store, workers=1), label=node.label)
    raw.unlink()
    built.complete(done)
    events = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [event["eventType"] for event in events] == ["START", "FAIL", "START", "COMPLETE"]
    assert {event["outputs"][0]["name"] for event in events} == {str(done.artifact.path)}
    assert {event["inputs"][0]["name"] for event in events} == {str(raw)}
