"""``sabot issuer serve`` and ``token``: people's tokens for a demonstration, and for curl."""

from contextlib import suppress
from typing import Annotated

import typer

from services.cli.console import console, errors, fail
from services.runtime.roles import Role

_PORT = 8104


def group() -> typer.Typer:
    """The commands of the development issuer."""
    commands = typer.Typer(
        help="Tokens for people, for trying things out: who asks gets any role.", no_args_is_help=True
    )

    @commands.command("serve")
    def serve(
        host: Annotated[str, typer.Option(help="Loopback only.")] = "127.0.0.1",
        port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = _PORT,
    ) -> None:
        """Run an OIDC issuer until SIGTERM or Ctrl-C. Its key is new each time: tokens end with it.

        It prints what to write below an operator in the operators' file for its tokens to count.
        """
        from services.runtime.development_issuer import DevelopmentIssuer, serve_issuer
        from services.runtime.ports_system import SystemClock, SystemRng
        from services.runtime.process import OpenToTheWorld

        def ready(issuer: DevelopmentIssuer) -> None:
            console.print(issuer.entry(), markup=False, soft_wrap=True, end="")
            errors.print(f"issuer is ready on {issuer.url} (Ctrl-C stops it)", soft_wrap=True)

        try:
            with suppress(KeyboardInterrupt):
                serve_issuer(SystemClock(), SystemRng(), host, port, ready)
        except OpenToTheWorld:
            fail(f"{host!r} is not a loopback address, and this issuer is for one machine only", status=2)

    @commands.command("token")
    def token(
        user: Annotated[str, typer.Option(help="Who it is.")],
        operator: Annotated[str, typer.Option(help="The operator he works for.")],
        role: Annotated[list[Role], typer.Option(help="May be given several times.")],
        issuer: Annotated[
            str, typer.Option(metavar="URL", help="Where the issuer answers.")
        ] = f"http://127.0.0.1:{_PORT}",
    ) -> None:
        """Print a token, as in: curl -H "Authorization: Bearer $(sabot issuer token …)" …"""
        import httpx2

        wanted = {"user": user, "operator": operator, "roles": [each.value for each in role]}
        try:
            answer = httpx2.post(f"{issuer.rstrip('/')}/token", json=wanted, timeout=10, trust_env=False)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            fail(f"no issuer answers at {issuer}: {error}; start one with sabot issuer serve")
        if answer.status_code == 422:
            first = answer.json()["detail"][0]
            fail(f"--{first['loc'][-1]}: {first['msg']}", status=2)
        if answer.status_code != 200:
            fail(f"{issuer} is not a development issuer: it answered {answer.status_code}")
        print(answer.json()["access_token"])

    return commands
