"""A Prefect plugin that lets ``prefect deployment run corpus-to-model`` find its deployment by a bare name.

Prefect itself requires ``<flow>/<deployment>`` and answers a bare name with "Invalid deployment name format". The plugin's hook
is official, but the client's ``read_deployment_by_name``, which it wraps, is not. If that method is missing, nothing is
wrapped.

The plugin also withholds the password of ``.env`` from another user's process on the server's port; Prefect's commands do not
check that.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.responses import DeploymentResponse
from prefect.plugins import HookContext, SetupResult, register_hook
from prefect.settings import PREFECT_API_AUTH_STRING

from korealbert.flows.services.port_owner import other_owner
from korealbert.formatting import nearest

_WRAPPED = "read_deployment_by_name"


class UnclearName(ValueError):
    """No deployment, or several deployments, have this bare name."""


@register_hook
def setup_environment(*, ctx: HookContext) -> SetupResult | None:
    """Called when Prefect is imported, before a client is made."""
    result = None
    if other := other_owner(str(ctx.api_url or "")):
        print(f"the server at {ctx.api_url} is not ours: {other}; no password is sent to it", file=sys.stderr)
        result = SetupResult(env={PREFECT_API_AUTH_STRING.name: ""})
    original = getattr(PrefectClient, _WRAPPED, None)
    if original is None or hasattr(original, "__wrapped__"):
        ctx.logger_factory("korealbert").debug("bare deployment names stay unresolved: %s is not as expected", _WRAPPED)
        return result

    @wraps(original)
    async def read_deployment_by_name(self: PrefectClient, name: str, *args: Any, **kwargs: Any) -> DeploymentResponse:
        try:
            full = name if "/" in name else await resolve(self, name)
        except UnclearName as error:
            print(error, file=sys.stderr)  # The command would show a traceback otherwise.
            raise SystemExit(1) from None
        found: DeploymentResponse = await original(self, full, *args, **kwargs)
        return found

    setattr(PrefectClient, _WRAPPED, read_deployment_by_name)
    return result


async def resolve(client: PrefectClient, name: str) -> str:
    """Return the ``<flow>/<deployment>`` of a bare name: the one deployment of this name, else the one of this flow.

    Raises UnclearName if there is none, or several.
    """
    flows = {flow.id: flow.name for flow in await client.read_flows()}
    full = [(flows.get(d.flow_id, ""), d.name) for d in await client.read_deployments()]
    for position in (1, 0):
        matches = ["/".join(pair) for pair in full if pair[position] == name]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UnclearName(f"{name!r} could be any of {', '.join(sorted(matches))}; name one in full")
    known = sorted({each for pair in full for each in pair})
    names = ", ".join(sorted("/".join(pair) for pair in full))
    remedy = f"deployments: {names}" if full else "none is registered; `make up` registers them"
    raise UnclearName(f"no deployment {name!r}{nearest(name, known)}; {remedy}")
