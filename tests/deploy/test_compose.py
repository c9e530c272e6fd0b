"""compose.yaml without a container engine: what it says is started here, from the image's wheel.

Kafka runs with its settings, PostgreSQL asks for its passwords. What differs is where things are: addresses
of the servers, folders of the image, and a port where another program has it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from deploy.kafka import NoJars, jars
from deploy.kafka.broker import Broker, Jvm
from deploy.kafka.container import IMAGE
from deploy.kafka.machine import find_java
from deploy.kafka.ports import HeldPort
from deploy.kafka.tether import Tether
from deploy.postgres.server import OLDEST, Server, available
from services.cli.prepare import PASSWORD
from services.runtime.files import SERVICES
from services.runtime.process import OpenToTheWorld, check_host
from services.runtime.settings import Settings, settings_from
from tests.deploy.files import (
    DEPLOY,
    ROOT,
    Missing,
    compose,
    interpolated,
    readme_block,
    scraped,
    services,
    stages,
)
from tests.deploy.installed import Process, Wheel, play_a_coup, started
from tests.end_to_end.support import complaint, eventually
from tests.support import requires

ROLES = (*SERVICES, "reader")


@pytest.fixture(scope="module")
def variables(tmp_path_factory) -> dict[str, str]:
    """What Compose reads in the ``.env`` that the README's command makes."""
    folder = tmp_path_factory.mktemp("deploy")
    shutil.copyfile(DEPLOY / ".env.example", folder / ".env.example")
    [make] = re.findall(r"^\(umask.*?>\.env\)$", readme_block(".env.example"), re.DOTALL | re.MULTILINE)
    subprocess.run(["sh", "-euc", make], cwd=folder, check=True)
    made = folder / ".env"
    assert made.stat().st_mode & 0o777 == 0o600
    before = made.read_text("utf-8")
    assert subprocess.run(["sh", "-c", make], cwd=folder, capture_output=True, check=False).returncode != 0
    assert made.read_text("utf-8") == before
    lines = (line for line in before.splitlines() if line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


# ---------------------------------------------------------------------------------------- what is written


def test_a_password_for_each_role_and_none_in_the_repository(variables):
    names = {"POSTGRES_PASSWORD", *(PASSWORD + role.upper() for role in ROLES)}
    assert set(variables) == names
    assert len(set(variables.values())) == len(names)
    assert all(re.fullmatch("[0-9a-f]{48}", password) for password in variables.values())
    example = (DEPLOY / ".env.example").read_text("utf-8")
    assert re.findall(r"^\w*PASSWORD\w*=(.*)$", example, re.MULTILINE) == [""] * len(names)
    for name, service in compose()["services"].items():
        for variable, value in service.get("environment", {}).items():
            assert isinstance(value, str | int), f"Compose takes no {value!r} ({name}: {variable})"
            assert not isinstance(value, bool)
            if "PASSWORD" in variable:
                assert re.fullmatch(r"\$\{\w*PASSWORD\w*:\?is missing in \.env\}", str(value))
            else:
                assert "PASSWORD" not in str(value)
    ignored = subprocess.run(["git", "check-ignore", "-q", "deploy/.env"], cwd=ROOT, check=False)
    assert ignored.returncode == 0


@pytest.mark.parametrize("lacking", ["POSTGRES_PASSWORD", *(PASSWORD + role.upper() for role in ROLES)])
def test_nothing_starts_without_a_password(variables, lacking):
    with pytest.raises(Missing, match=f"{lacking} is missing in .env"):
        services({**variables, lacking: ""})


def test_an_empty_password_is_refused(monkeypatch):
    monkeypatch.setenv(f"{PASSWORD}WALLET", "")
    assert "SABOT_PASSWORD_WALLET is empty" in complaint("prepare", "--kafka", "127.0.0.1:1")


def test_each_service_is_told_its_own_password_and_no_other(variables):
    told = services(variables)
    passwords = set(variables.values())
    own = {**{name: name for name in SERVICES}, "verify": "reader"}
    for name, role in own.items():
        environment = told[name]["environment"]
        assert environment["PGPASSWORD"] == variables[PASSWORD + role.upper()]
        assert {*environment.values()} & passwords == {environment["PGPASSWORD"]}
    assert passwords <= {*told["prepare"]["environment"].values()}


def test_only_this_machine_reaches_what_is_published(variables):
    published = {name: each["ports"] for name, each in services(variables).items() if "ports" in each}
    assert published == {
        "game": ["127.0.0.1:8101:8101"],
        "wallet": ["127.0.0.1:8102:8102"],
        "audit": ["127.0.0.1:8103:8103"],
        "prometheus": ["127.0.0.1:9090:9090"],
    }
    for name in SERVICES:
        service = services(variables)[name]
        assert "--host 0.0.0.0" in " ".join(service["command"])
        trusted = settings_from(service["environment"]).trusted_network
        check_host("0.0.0.0", trusted=trusted)
        with pytest.raises(OpenToTheWorld):
            check_host("0.0.0.0")
    assert not {"network_mode", "networks"} & {key for each in services(variables).values() for key in each}


def test_settings_are_the_programs_own_unless_env_names_others(variables):
    for name in SERVICES:
        given = settings_from(services(variables)[name]["environment"])
        own = Settings(kafka=given.kafka, database=given.database, trusted_network=True)
        assert given == own
    other = {"SABOT_ZONE": "Europe/Vilnius", "SABOT_CUT_OFF": "07:30", "SABOT_SEAL_TIMEOUT_SECONDS": "5"}
    given = settings_from(services({**variables, **other})["wallet"]["environment"])
    assert (given.zone, str(given.cut_off), given.seal_timeout_seconds) == ("Europe/Vilnius", "07:30:00", 5)


def test_each_starts_when_what_it_needs_is_there(variables):
    told = services(variables)
    needs = {name: told[name].get("depends_on", {}) for name in told}
    assert needs["prepare"] == {name: {"condition": "service_healthy"} for name in ("kafka", "postgres")}
    for name in SERVICES:
        assert needs[name] == {"prepare": {"condition": "service_completed_successfully"}}
    lasting = {*SERVICES, "kafka", "postgres", "prometheus"}
    assert {name for name in told if told[name].get("restart") == "unless-stopped"} == lasting
    assert {name for name in told if "healthcheck" in told[name]} == lasting - {"prometheus"}
    assert told["prepare"]["restart"] == "no"
    assert "verify" in told["verify"]["profiles"]


def test_who_breaks_in_finds_little(variables):
    told = services(variables)
    for each in told.values():
        assert each["security_opt"] == ["no-new-privileges:true"]
        assert not {"privileged", "user", "pid", "cap_add"} & set(each)
    for name in set(told) - {"postgres"}:  # which begins as root
        assert told[name]["cap_drop"] == ["ALL"]
    for name in ("prepare", *SERVICES, "prometheus"):
        assert told[name]["read_only"] is True
    for name in SERVICES:
        assert int(told[name]["stop_grace_period"].removesuffix("s")) >= 30
        assert "volumes" not in told[name]


def test_images_are_pinned_and_ours_is_of_this_version(variables):
    told = services(variables)
    ours = ("prepare", *SERVICES, "verify")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert {told[name]["image"] for name in ours} == {f"sabot:{version}"}
    [[context, containerfile]] = {tuple(told[name]["build"].values()) for name in ours}
    assert (DEPLOY / context).resolve() == ROOT
    assert ROOT / containerfile == DEPLOY / "Containerfile"
    for name in set(told) - set(ours):
        assert re.fullmatch(r"[\w/]+:v?\d+\.\d+[\w.-]*", told[name]["image"])
    assert told["kafka"]["image"] == IMAGE
    assert int(re.findall(r":(\d+)", told["postgres"]["image"])[0]) >= OLDEST


def test_what_is_kept_is_kept_in_volumes(variables):
    told = services(variables)
    named = {volume.split(":")[0] for each in told.values() for volume in each.get("volumes", [])}
    assert {name for name in named if not name.startswith(".")} == set(compose()["volumes"])
    data = told["kafka"]["environment"]["KAFKA_LOG_DIRS"]
    assert told["kafka"]["volumes"] == [f"kafka-data:{data}"]
    assert told["postgres"]["volumes"] == ["postgres-data:/var/lib/postgresql/data"]
    for source in named:
        assert not source.startswith(".") or (DEPLOY / source).is_file()


def test_prometheus_asks_every_service_where_it_listens(variables):
    told = services(variables)
    assert scraped() == {name: [f"{name}:{told[name]['ports'][0].split(':')[2]}"] for name in SERVICES}
    assert told["prometheus"]["volumes"][0] == "./prometheus.yml:/etc/prometheus/prometheus.yml:ro"


@pytest.mark.parametrize(
    ("text", "put"),
    [("$$x", "$x"), ("${A}", "a"), ("${B:-b}", "b"), ("${A:-b}", "a"), ("${B}", ""), ("{A}", "{A}")],
)
def test_variables_are_put_in_as_compose_does_it(text, put):
    assert interpolated({"x": [text]}, {"A": "a"}) == {"x": [put]}


# ---------------------------------------------------------------------------------------- what is started


@contextmanager
def kafka_of_compose(environment: Mapping[str, Any], folder: Path, jvm: Jvm) -> Iterator[str]:
    """A broker with exactly these settings, at addresses and in a folder of its own."""
    with closing(HeldPort()) as client, closing(HeldPort()) as controller, Tether() as tether:
        # The image makes properties of the variables like this.
        properties = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
            .replace("0.0.0.0:9092", client.address)
            .replace("kafka:9092", client.address)
            .replace("127.0.0.1:9093", controller.address)
            .replace("/var/lib/kafka/data", str(folder / "broker" / "data"))
            for name, value in environment.items()
            if name.startswith("KAFKA_")
        }
        folder.mkdir()
        broker = Broker(
            1,
            folder / "broker",
            client=client,
            controller=controller,
            shared=properties,
            jvm=jvm,
            tether=tether,
        )
        broker.begin_format(environment["CLUSTER_ID"])
        broker.end_format()
        broker.start()
        eventually(broker.is_ready, 60)
        yield client.address


@contextmanager
def postgres_of_compose(environment: Mapping[str, Any]) -> Iterator[str]:
    """A server that asks everybody for his password, as the image's does whoever comes by TCP."""
    with Server() as server:
        superuser = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"
        with psycopg.connect(superuser, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE postgres PASSWORD '{environment['POSTGRES_PASSWORD']}'")
            rules = server.folder / "data" / "pg_hba.conf"
            rules.write_text("host all all all scram-sha-256\n", "utf-8")
            connection.execute("SELECT pg_reload_conf()")
        eventually(lambda: refused(superuser) is not None)
        yield f"127.0.0.1:{server.port}"


def refused(conninfo: str) -> str | None:
    """Why PostgreSQL does not let somebody in; None where it does."""
    try:
        psycopg.connect(conninfo).close()
    except psycopg.OperationalError as error:
        return str(error)
    return None


class Engine:
    """Starts what compose.yaml says, here."""

    def __init__(self, told: Mapping[str, Any], wheel: Wheel, folder: Path, where: Mapping[str, str]) -> None:
        self._told, self._where = told, where
        self._folder = folder
        # The image's own folder of commands, elsewhere.
        self._bin = folder / "opt/sabot/bin"
        wheel.install(self._bin)

    def command(self, name: str) -> list[str]:
        """The image's entry point and the service's command."""
        [entrypoint] = stages()[-1].all("ENTRYPOINT")
        command = [*json.loads(entrypoint), *(self._here(each) for each in self._told[name]["command"])]
        port = self._port(name)
        if port is not None and not is_free(port):
            command += ["--port", "0"]
        return self._found(command)

    def is_healthy(self, name: str, port: int) -> bool:
        """Run the service's health check."""
        kind, *command = self._told[name]["healthcheck"]["test"]
        assert kind == "CMD"
        command[-1] = command[-1].replace(f"127.0.0.1:{self._port(name)}/", f"127.0.0.1:{port}/")
        return self._run(self._found(command), name).returncode == 0

    def environment(self, name: str) -> dict[str, str]:
        """The image's and the service's."""
        path = str(self._bin.parent)
        image = {
            key: value.replace("/opt/sabot", path).replace("$PATH", os.environ["PATH"])
            for key, value in stages()[-1].environment().items()
        }
        return {
            **image,
            **{key: self._here(value) for key, value in self._told[name]["environment"].items()},
            "TMPDIR": str(self._tmp(name)),
        }

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A service that ends by itself."""
        return self._run([*self.command(name), *arguments], name)

    def left_behind(self, name: str) -> list[Path]:
        """What a service has written; its file system is read-only."""
        return [*self._folder.joinpath(name).rglob("*"), *self._tmp(name).rglob("*")]

    def _run(self, command: list[str], name: str) -> subprocess.CompletedProcess[str]:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        environment = self.environment(name)
        return subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )

    def _here(self, text: Any) -> str:
        for there, here in self._where.items():
            text = str(text).replace(there, here)
        return str(text)

    def _found(self, command: list[str]) -> list[str]:
        found = shutil.which(command[0], path=self._bin)
        assert found is not None
        return [found, *command[1:]]

    def _port(self, name: str) -> int | None:
        ports = self._told[name].get("ports")
        return int(ports[0].split(":")[1]) if ports else None

    def _tmp(self, name: str) -> Path:
        folder = self._folder / f"{name}.tmp"
        folder.mkdir(exist_ok=True)
        return folder


def is_free(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


@pytest.fixture
def engine(variables, wheel, tmp_path) -> Iterator[Engine]:
    java = find_java()
    requires("kafka", java is not None and java.is_enough, "a broker with settings of its own needs Java")
    assert java is not None
    try:
        jvm = Jvm(java, jars.fetch())
    except NoJars as reason:
        requires("kafka", False, " ".join(str(reason).split()))
    requires("postgres", available() is None, str(available()))
    told = services(variables)
    with (
        kafka_of_compose(told["kafka"]["environment"], tmp_path / "kafka", jvm) as kafka,
        postgres_of_compose(told["postgres"]["environment"]) as postgres,
    ):
        yield Engine(told, wheel, tmp_path, {"kafka:9092": kafka, "postgres:5432": postgres})


def test_it_starts_plays_and_verifies(engine, variables, tmp_path):
    made = engine.run("prepare")
    assert made.returncode == 0, made.stderr
    assert "topic game.events: made, 12 partitions, 1 copy, kept for ever" in made.stdout
    assert "database sabot_wallet: made" in made.stdout
    # As at every `up`.
    again = engine.run("prepare")
    assert again.returncode == 0, again.stderr
    assert not re.search(r": made\b", again.stdout)
    assert_passwords_keep_apart(engine, variables)

    commands = {name: (engine.command(name), engine.environment(name)) for name in SERVICES}
    with started(commands, tmp_path) as running:
        for name, process in running.items():
            eventually(partial(engine.is_healthy, name, process.port))
            assert process.get("/readyz") == {"status": "ready", "reasons": []}
        play_a_coup(running)
        assert_prometheus_is_answered(running)
        verified = engine.run("verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert "1 of 1 coups verified" in " ".join(verified.stderr.split() + verified.stdout.split())
        ports = {name: process.port for name, process in running.items()}
        for name, process in running.items():
            assert process.end() == 0, process.said
            assert not engine.is_healthy(name, ports[name])
    for name in ("prepare", *SERVICES):
        assert engine.left_behind(name) == []


def assert_passwords_keep_apart(engine: Engine, variables: Mapping[str, str]) -> None:
    """Each role has its own password; and nobody comes in without one."""
    template = engine.environment("game")["SABOT_DATABASE"]
    for role in ROLES:
        database = "game" if role == "reader" else role
        url = template.replace("{service}", role, 1).replace("{service}", database)
        for other in ROLES:
            why = refused(psycopg.conninfo.make_conninfo(url, password=variables[PASSWORD + other.upper()]))
            assert (why is None) is (role == other), (role, other, why)
        assert "no password" in str(refused(url))


def assert_prometheus_is_answered(running: Mapping[str, Process]) -> None:
    """Every target of every job, at the path that Prometheus asks by default."""
    for job, [target] in scraped().items():
        process = running[target.partition(":")[0]]
        answer = process.ask("GET", "/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        families = {family.name for family in text_string_to_metric_families(answer.body)}
        # And what README.md says to look at.
        assert {f"{job}_events_appended", f"{job}_outbox_backlog_events"} <= families
