"""The systemd unit: what it starts plays a coup, with /opt/sabot and /var/lib/sabot elsewhere."""

from pathlib import Path

import pytest

from services.runtime.files import DATABASES, SERVICES
from tests.deploy.files import readme_block, unit
from tests.deploy.installed import Wheel, play_a_coup, started

OPT, STATE = "/opt/sabot", "/var/lib/sabot"


def test_three_services_play_a_coup_over_one_folder(wheel: Wheel, tmp_path: Path):
    opt, state = tmp_path / "opt", tmp_path / "state"
    wheel.install(opt / ".venv" / "bin")
    state.mkdir()
    commands = {}
    for service in SERVICES:
        [start] = unit(service)["ExecStart"]
        assert start.startswith(f"{OPT}/.venv/bin/sabot {service} serve ")
        command = [part.replace(OPT, str(opt)).replace(STATE, str(state)) for part in start.split()]
        environment = dict(each.split("=", 1) for each in unit(service)["Environment"])
        # And a port that no other test has.
        commands[service] = ([*command, "--port", "0"], {"PATH": "/usr/bin:/bin", **environment})
    with started(commands, tmp_path / "work") as running:
        for process in running.values():
            assert process.get("/readyz") == {"status": "ready", "reasons": []}
        play_a_coup(running)
        for process in running.values():
            assert process.end() == 0, process.said
    assert set(DATABASES) <= {path.name for path in state.iterdir()}
    # It may write nowhere else.
    for service in SERVICES:
        assert list((tmp_path / "work" / service).iterdir()) == []


@pytest.mark.parametrize("service", SERVICES)
def test_it_is_started_again_as_often_as_it_takes(service):
    settings = unit(service)
    assert settings["Restart"] == ["on-failure"]
    assert settings["StartLimitIntervalSec"] == ["0"]
    # What a service ends with where a setting cannot be.
    assert settings["RestartPreventExitStatus"] == ["2"]
    assert int(settings["TimeoutStopSec"][0]) >= 30


@pytest.mark.parametrize("service", SERVICES)
def test_it_may_little(service):
    settings = unit(service)
    assert settings["User"] == ["sabot"]
    assert settings["ProtectSystem"] == ["strict"]
    assert settings["NoNewPrivileges"] == ["yes"]
    assert settings["CapabilityBoundingSet"] == [""]
    # The one folder that it may write to is its own.
    assert f"/var/lib/{settings['StateDirectory'][0]}" == STATE
    assert settings["StateDirectoryMode"] == ["0700"]
    assert "ReadWritePaths" not in settings


def test_each_service_has_a_file_of_its_own_for_its_password():
    assert unit("wallet")["EnvironmentFile"] == ["-/etc/sabot/sabot.env", "-/etc/sabot/wallet.env"]


def test_the_readme_puts_it_where_it_expects_to_be():
    block = readme_block("systemctl enable")
    assert f"cp {OPT}/deploy/systemd/sabot@.service /etc/systemd/system/" in block
    assert f"make -C {OPT} setup" in block
    assert f"--home {STATE}" in block
    for service in SERVICES:
        assert f"sabot@{service}" in block
