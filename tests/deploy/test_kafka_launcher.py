"""The launcher of real brokers: they answer, keep what they acknowledged, and leave nothing behind."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deploy.kafka import BrokerFailed, Cluster, NoJars, available, find, jars, machine, own
from deploy.kafka.container import IMAGE, Container, command
from deploy.kafka.machine import Java, find_java
from deploy.kafka.ports import HeldPort
from tests.support import requires

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def java() -> None:
    """Skip where no broker can run in a Java of this machine, whatever else there is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SABOT_TEST_KAFKA", raising=False)
        patch.setattr("deploy.kafka.lookup.find_docker", lambda: None)
        lacking = available()
    requires("kafka", lacking is None, str(lacking))


@pytest.fixture
def cluster(own_kafka_cluster: Cluster) -> Cluster:
    """The broker that all tests share; whatever is done to it here is put right after each test."""
    return own_kafka_cluster


# ------------------------------------------------------------------------------------------------- clients


def make_topic(bootstrap: str, replicas: int = 1, **configs: str) -> str:
    topic = f"t-{uuid4()}"
    config = {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic(topic, num_partitions=1, replication_factor=replicas, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [made] = admin.create_topics([new]).values()
    made.result(timeout=20)
    return topic


class Publisher:
    """Counts what all replicas have acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic, self.acknowledged = topic, 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})

    def _heard(self, error: object, _: object) -> None:
        assert error is None, error
        self.acknowledged += 1

    def publish(self, value: bytes, seconds: float = 20) -> bool:
        """Whether it is acknowledged in that time; if not, it is still on its way."""
        before = self.acknowledged
        self._producer.produce(self.topic, value, on_delivery=self._heard)
        self._producer.flush(seconds)
        return self.acknowledged > before

    def wait(self) -> int:
        """How many are acknowledged when none is on its way any more."""
        self._producer.flush(20)
        return self.acknowledged


def publish(bootstrap: str, topic: str, value: bytes) -> None:
    assert Publisher(bootstrap, topic).publish(value)


def records(bootstrap: str, topic: str, **settings: Any) -> list[bytes]:
    """All that a topic has, by a consumer that is assigned it, or in a group if settings name one."""
    base = {"bootstrap.servers": bootstrap, "group.id": "none", "auto.offset.reset": "earliest"}
    consumer = Consumer({**base, "enable.auto.commit": False, **settings})
    try:
        if settings:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
        found: list[bytes] = []
        while len(found) < end:
            [record] = consumer.consume(1, timeout=20)
            assert record.error() is None, record.error()
            found.append(record.value() or b"")
        return found
    finally:
        consumer.close()


def is_alive(pid: int) -> bool:
    """Whether a process runs. One that ended and that nobody has asked after (a zombie) does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ended(pid: int, seconds: float = 10) -> bool:
    until = monotonic() + seconds
    while is_alive(pid):
        if monotonic() > until:
            return False
        sleep(0.02)
    return True


# --------------------------------------------------------------------------------------------- one cluster


def test_what_was_acknowledged_survives_a_stop_and_a_kill(cluster):
    bootstrap = cluster.bootstrap
    topic = make_topic(bootstrap)
    publish(bootstrap, topic, b"first")
    first_pid = cluster.pid()

    cluster.stop()
    assert ended(first_pid)
    with pytest.raises(BrokerFailed, match="broker 0 is not running"):
        cluster.pid()
    cluster.start()
    assert cluster.pid() != first_pid
    publish(bootstrap, topic, b"second")

    cluster.kill()
    cluster.start()
    publish(bootstrap, topic, b"third")
    assert cluster.bootstrap == bootstrap
    assert records(bootstrap, topic) == [b"first", b"second", b"third"]


def test_a_paused_broker_says_nothing_until_it_goes_on(cluster):
    topic = make_topic(cluster.bootstrap)
    publisher = Publisher(cluster.bootstrap, topic)
    assert publisher.publish(b"before")
    cluster.pause()
    assert not publisher.publish(b"during", seconds=0.5)
    cluster.resume()
    assert publisher.wait() == 2
    assert records(cluster.bootstrap, topic) == [b"before", b"during"]


def test_a_consumer_group_may_have_a_short_session(cluster):
    topic = make_topic(cluster.bootstrap)
    publish(cluster.bootstrap, topic, b"one")
    group = {"group.id": f"g-{uuid4()}", "session.timeout.ms": 600, "heartbeat.interval.ms": 200}
    assert records(cluster.bootstrap, topic, **group) == [b"one"]


def test_nobody_gets_the_port_of_a_stopped_broker(cluster):
    port = int(cluster.bootstrap.rpartition(":")[2])
    cluster.stop()
    with closing(socket.socket()) as other, pytest.raises(OSError, match="Address already in use"):
        other.bind(("127.0.0.1", port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_start_that_fails_says_why_and_can_be_tried_again(cluster):
    port = int(cluster.bootstrap.rpartition(":")[2])
    cluster.stop()
    with closing(socket.socket()) as intruder:
        intruder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        intruder.bind(("127.0.0.1", port))
        intruder.listen()
        with pytest.raises(BrokerFailed, match="Address already in use") as failed:
            cluster.start()
    assert re.match(r"broker 0 ended with status \d+; the end of its log:\n", str(failed.value))
    assert "\tat " not in str(failed.value), "calls of a stack trace"
    cluster.start()
    make_topic(cluster.bootstrap)


def test_a_broker_outlives_the_thread_that_started_it(cluster):
    cluster.stop()
    thread = threading.Thread(target=cluster.start)
    thread.start()
    thread.join()
    make_topic(cluster.bootstrap)
    cluster.check()


def test_one_that_ends_by_itself_is_noticed(cluster):
    def watch(seconds: float) -> None:
        until = monotonic() + seconds
        while monotonic() < until:
            cluster.check()
            sleep(0.02)

    os.kill(cluster.pid(), signal.SIGKILL)
    with pytest.raises(BrokerFailed, match="broker 0 was ended by SIGKILL"):
        watch(10)


# ------------------------------------------------------------------------------------- beginnings and ends


def test_nothing_is_left_after_close(java):
    with Cluster() as cluster:
        pid, folder = cluster.pid(), cluster.log().parents[1]
        assert is_alive(pid)
        assert (folder / "broker-0" / "data" / "meta.properties").exists()
        address = cluster.bootstrap
    assert not is_alive(pid)
    assert not folder.exists()
    with closing(socket.socket()) as anybody:
        host, _, port = address.rpartition(":")
        anybody.bind((host, int(port)))


def test_nothing_is_left_after_a_start_that_failed(java, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(BrokerFailed, match=r"broker 0 cannot format its storage(.|\n)*log\.cleaner\.threads"):
        Cluster(settings={"log.cleaner.threads": "several"}).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_a_broker_dies_with_its_parent(java, tmp_path):
    program = """
        import sys, threading
        from deploy.kafka import Cluster
        with Cluster() as cluster:
            print(cluster.pid(), flush=True)
            threading.Event().wait()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert is_alive(pid)
        finally:
            parent.kill()
    assert ended(pid)


def test_a_cluster_has_one_broker_or_three():
    with pytest.raises(ValueError, match="1 or 3 brokers, not 2"):
        Cluster(2)


def test_three_brokers_replicate_and_do_without_one(java):
    with Cluster(3) as cluster:
        topic = make_topic(cluster.bootstrap, replicas=3, min_insync_replicas="2")
        publish(cluster.bootstrap, topic, b"by three")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        partition = admin.list_topics(topic, timeout=20).topics[topic].partitions[0]
        assert sorted(partition.isrs) == [0, 1, 2]

        cluster.kill(partition.leader)
        publish(cluster.bootstrap, topic, b"by two")
        assert records(cluster.bootstrap, topic) == [b"by three", b"by two"]


# --------------------------------------------------------------------------------------------- the command


def kafka_command(*arguments: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "deploy.kafka", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_prints_the_address_and_clears_away_at_sigterm(java, tmp_path):
    with kafka_command(TMPDIR=str(tmp_path)) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"export SABOT_KAFKA=(127\.0\.0\.1:\d+)\n", line)
            assert found, line
            make_topic(found[1])
            assert len(list(tmp_path.glob("sabot-kafka-*"))) == 1
            process.send_signal(signal.SIGTERM)
            rest, said = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, rest) == (0, "")
    pid = re.search(r"broker 0: process (\d+), log ", said)
    assert pid, said
    assert "Ctrl-C stops it and removes its data." in said
    assert not is_alive(int(pid[1]))
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_is_missing(tmp_path):
    with kafka_command(PATH=str(tmp_path), JAVA_HOME="") as process:
        assert process.communicate(timeout=30) == (
            "",
            "a broker needs Java 17 and Maven (Java is missing), or Docker\n",
        )
    assert process.returncode == 1


def test_the_command_teaches():
    with kafka_command("--help") as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "export SABOT_KAFKA=127.0.0.1:40123" in said
    assert "--brokers {1,3}" in said


# ------------------------------------------------------------------------------------- which broker there is


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without anything; what there is is then put on it."""
    monkeypatch.delenv("SABOT_TEST_KAFKA", raising=False)
    for tool in ("java", "maven", "docker"):
        monkeypatch.setattr(f"deploy.kafka.lookup.find_{tool}", lambda: None)
    monkeypatch.setattr(jars, "folder", lambda: tmp_path / "no-jars")
    return monkeypatch


def put(machine: pytest.MonkeyPatch, tool: str, found: Any) -> None:
    machine.setattr(f"deploy.kafka.lookup.find_{tool}", lambda: found)


def test_where_there_is_nothing_all_three_are_named(bare):
    assert available() == (
        "there is neither SABOT_TEST_KAFKA, nor Java 17 and Maven (Java is missing), nor Docker"
    )
    put(bare, "java", Java("java", "11.0.2"))
    assert "(Java is 11.0.2)" in str(available())
    put(bare, "java", Java("java", "21"))
    assert "(Maven is missing)" in str(available())
    with pytest.raises(BrokerFailed, match="Maven is missing"):
        find()


def test_the_order_is_environment_then_java_then_docker(bare, tmp_path):
    put(bare, "docker", "docker")
    assert available() is None
    assert isinstance(find(), Container)

    put(bare, "java", Java("java", "17.0.15"))
    bare.setattr(jars, "folder", lambda: tmp_path)
    assert isinstance(find(), Cluster), "with the jars there, Java alone is enough"
    bare.setattr(jars, "folder", lambda: tmp_path / "no-jars")
    put(bare, "maven", "mvn")
    assert available() is None
    assert isinstance(find(), Cluster)

    bare.setenv("SABOT_TEST_KAFKA", "127.0.0.1:9092")
    assert available() is None
    assert (find().bootstrap, find().ours) == ("127.0.0.1:9092", False)
    assert isinstance(own(), Cluster), "who wants one of their own gets it all the same"


def test_docker_runs_one_broker_only(bare):
    put(bare, "docker", "docker")
    with pytest.raises(BrokerFailed, match="3 brokers need Java 17 and Maven"):
        own(3)


def test_a_given_broker_must_answer(bare):
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        bare.setenv("SABOT_TEST_KAFKA", f"127.0.0.1:1,{address}")
        with find() as given:
            given.check()
    bare.setenv("SABOT_TEST_KAFKA", f"nonsense,{address}")
    with pytest.raises(BrokerFailed, match=r"SABOT_TEST_KAFKA names nonsense,.*, and nobody answers"):
        find().__enter__()


@pytest.mark.parametrize(
    ("said", "version", "enough"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "17.0.15", True),
        ('openjdk version "25" 2025-09-16', "25", True),
        ('openjdk version "26-ea" 2026-03-17', "26", True),
        ('java version "1.8.0_292"', "1.8.0_292", False),
        ('openjdk version "11.0.2" 2019-01-15', "11.0.2", False),
    ],
)
def test_the_version_of_java_is_read(monkeypatch, tmp_path, said, version, enough):
    script(tmp_path / "bin" / "java", f"echo '{said}' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = find_java()
    assert found == Java(str(tmp_path / "bin" / "java"), version)
    assert found.is_enough is enough


def script(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


# -------------------------------------------------------------------------------------------- the fixtures


def run_planted(pytester: pytest.Pytester) -> pytest.RunResult:
    pytester.makeconftest("""
        from tests.conftest import pytest_terminal_summary as pytest_terminal_summary
        pytest_plugins = ["tests.support.kafka"]
    """)
    pytester.makepyfile("""
        def test_that_reads(kafka_cluster):
            assert not kafka_cluster.ours
        def test_that_stops(own_kafka_cluster):
            own_kafka_cluster.stop()
    """)
    return pytester.runpytest()


def test_without_a_broker_its_tests_are_left_out(bare, pytester):
    bare.delenv("SABOT_REQUIRE", raising=False)
    run = run_planted(pytester)
    run.assert_outcomes(skipped=2)
    run.stdout.fnmatch_lines(["left out: kafka because there is neither SABOT_TEST_KAFKA, nor Java*"])


def test_without_its_jars_too(bare, pytester):
    def fetch() -> Path:
        raise NoJars("Maven could not bring them:\nno network")

    bare.delenv("SABOT_REQUIRE", raising=False)
    put(bare, "java", Java("java", "17"))
    put(bare, "maven", "mvn")
    bare.setattr("deploy.kafka.cluster.find_java", lambda: Java("java", "17"))
    bare.setattr(jars, "fetch", fetch)
    run = run_planted(pytester)
    run.assert_outcomes(skipped=2)
    run.stdout.fnmatch_lines(["left out: kafka because Maven could not bring them: no network (2 times)"])


def test_a_broker_of_somebody_else_is_not_stopped(bare, pytester):
    bare.delenv("SABOT_REQUIRE", raising=False)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        bare.setenv("SABOT_TEST_KAFKA", f"127.0.0.1:{listener.getsockname()[1]}")
        run = run_planted(pytester)
    run.assert_outcomes(passed=1, skipped=1)
    run.stdout.fnmatch_lines(["left out: kafka because the broker that there is may not be stopped"])


# ------------------------------------------------------------------------------------------------ the jars


@pytest.fixture
def maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A stand-in for Maven that notes each call and takes a while for its two files."""
    calls = tmp_path / "calls"
    script(
        tmp_path / "mvn",
        f"echo called >>'{calls}'",
        "for argument do case $argument in -DoutputDirectory=*) folder=${argument#*=};; esac; done",
        'mkdir "$folder" && echo half >"$folder/a.jar" && sleep 0.3 && echo whole >"$folder/b.jar"',
    )
    monkeypatch.setattr(jars, "find_maven", lambda: str(tmp_path / "mvn"))
    (tmp_path / "pom.xml").write_text("<project/>")
    return calls


def test_two_at_once_fetch_the_jars_once(maven, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        folders = {*pool.map(lambda _: jars.fetch(tmp_path / "pom.xml", tmp_path / "libs"), range(4))}
    assert maven.read_text() == "called\n"
    [folder] = folders
    assert sorted(path.name for path in folder.iterdir()) == ["a.jar", "b.jar"]


def test_a_changed_pom_is_fetched_anew(maven, tmp_path):
    first = jars.fetch(tmp_path / "pom.xml", tmp_path / "libs")
    (tmp_path / "pom.xml").write_text("<project></project>")
    assert jars.fetch(tmp_path / "pom.xml", tmp_path / "libs") != first
    assert maven.read_text() == "called\n" * 2


def test_half_a_folder_is_never_taken_for_all(maven, tmp_path):
    unfinished = tmp_path / "libs" / ".unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / "left-over.jar").touch()
    whole = jars.fetch(tmp_path / "pom.xml", tmp_path / "libs")
    assert sorted(path.name for path in whole.iterdir()) == ["a.jar", "b.jar"]
    assert not unfinished.exists()


def test_without_the_jars_the_reason_is_mavens(monkeypatch, tmp_path):
    (tmp_path / "pom.xml").write_text("<project/>")
    monkeypatch.setattr(jars, "find_maven", lambda: None)
    with pytest.raises(NoJars, match=r"there is no Maven \(mvn\)"):
        jars.fetch(tmp_path / "pom.xml", tmp_path / "libs")
    script(tmp_path / "mvn", "echo hello", "echo '[ERROR] Unknown host'", "exit 1")
    monkeypatch.setattr(jars, "find_maven", lambda: str(tmp_path / "mvn"))
    with pytest.raises(NoJars) as failed:
        jars.fetch(tmp_path / "pom.xml", tmp_path / "libs")
    assert str(failed.value) == "Maven could not bring the jars of Kafka:\n[ERROR] Unknown host"
    assert not jars.folder(tmp_path / "pom.xml", tmp_path / "libs").exists()


# -------------------------------------------------------------------------------------------------- Docker


def test_the_image_is_of_the_same_version_as_the_jars():
    version = re.search(r"<kafka\.version>(.*)</kafka\.version>", jars.POM.read_text())
    assert version
    assert f"apache/kafka:{version[1]}" == IMAGE


def test_a_container_is_published_on_the_loopback_interface_only():
    line = command("docker", 40123)
    assert line[:4] == ["docker", "run", "--rm", "--publish=127.0.0.1:40123:40123"]
    assert line[-1] == IMAGE
    settings = dict(each.removeprefix("--env=KAFKA_").split("=", 1) for each in line[4:-1])
    assert settings["ADVERTISED_LISTENERS"] == "BROKER://127.0.0.1:40123"
    assert settings["LISTENERS"] == "BROKER://0.0.0.0:40123,CONTROLLER://127.0.0.1:9093"
    assert settings["AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_a_container_is_there_until_the_end(tmp_path):
    """With a stand-in for ``docker`` that listens at the published port and notes how it ended."""
    stand_in = tmp_path / "docker"
    stand_in.write_text(
        textwrap.dedent(f"""\
            #!{sys.executable} -IS
            import pathlib, signal, socket, sys
            def end(*_):
                pathlib.Path({str(tmp_path / "ended")!r}).touch()
                sys.exit(143)
            signal.signal(signal.SIGTERM, end)
            port = next(int(a.rpartition(":")[2]) for a in sys.argv if a.startswith("--publish="))
            listener = socket.create_server(("127.0.0.1", port))
            print("[KafkaRaftServer nodeId=0] Kafka Server started", flush=True)
            while True:
                listener.accept()[0].close()
            """)
    )
    stand_in.chmod(0o755)
    with Container(str(stand_in)) as container:
        container.check()
        host, _, port = container.bootstrap.rpartition(":")
        socket.create_connection((host, int(port)), timeout=5).close()
        assert not container.ours
    assert (tmp_path / "ended").exists()


def test_an_engine_that_does_not_answer_is_none(monkeypatch, tmp_path):
    script(tmp_path / "docker", "echo 'Cannot connect to the Docker daemon' >&2", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert shutil.which("docker") == str(tmp_path / "docker")
    assert machine.find_docker() is None
    script(tmp_path / "docker", '[ "$1" = info ] && echo 29.0.1')
    assert machine.find_docker() == str(tmp_path / "docker")


def test_a_held_port_is_given_to_nobody_else():
    held = HeldPort()
    with closing(held), closing(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", held.number))
        listener.listen()
    with closing(socket.socket()) as anybody:
        anybody.bind(("127.0.0.1", held.number))
