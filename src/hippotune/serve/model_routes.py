"""Trained models over HTTP: as data, or whole, to clients on this machine or behind TLS."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hippotune import portable
from hippotune.errors import CheckpointError
from hippotune.plan.facts import Checkpoint
from hippotune.scratch import Scratch
from hippotune.sequences.config import Config
from hippotune.serve.bodies import Located, WhichModel
from hippotune.serve.guard import Guard, Refused, read_body, reply
from hippotune.serve.hub import Hub, NotHere
from hippotune.serve.questions import WriteExport
from hippotune.serve.routes import Route
from hippotune.serve.served_plan import ServedPlan

_PART = 1 << 20


class ModelRoutes:
    """Handlers of models."""

    def __init__(self, hub: Hub, guard: Guard) -> None:
        self._hub = hub
        self._guard = guard

    def table(self) -> list[Route]:
        """Return what is served."""
        return [
            Route(
                "POST",
                "/plans/{key}/located",
                "read",
                self.located,
                body=WhichModel,
                answer=Located,
                statuses=(404,),
            ),
            Route(
                "POST",
                "/plans/{key}/checkpoint",
                "submit",
                self.checkpoint,
                body=WhichModel,
                content="bytes",
                statuses=(404,),
            ),
            Route(
                "POST",
                "/plans/{key}/export",
                "submit",
                self.export,
                body=WhichModel,
                content="bytes",
                statuses=(404,),
            ),
        ]

    async def located(self, request: Request) -> Response:
        """Say where on the server's machine a checkpoint is."""
        plan, which = await self._which(request)
        found, _ = await self._found(plan, which)
        return reply(Located(str(plan.runtime.files.local_path(found))))

    async def checkpoint(self, request: Request) -> Response:
        """Return a whole trainer as it was saved, its digest checked: on loopback or by TLS alone."""
        is_near = request.client is not None and request.client.host in ("127.0.0.1", "::1")
        if not is_near and request.url.scheme != "https":
            raise Refused(403, "a whole trainer travels on loopback or by TLS alone: export the model")
        plan, which = await self._which(request)
        found, _ = await self._found(plan, which)
        path = await asyncio.to_thread(plan.runtime.files.verify, found)
        return sent_file(path)

    async def export(self, request: Request) -> Response:
        """Return a model as data: a file for torch.load(weights_only=True), or safetensors."""
        plan, which = await self._which(request)
        found, metrics = await self._found(plan, which)
        await asyncio.to_thread(plan.runtime.files.verify, found)
        scratch = Scratch()
        try:
            self._hub.probes.lend(scratch.path)
            target = scratch.path / f"model{which.suffix}"
            question = WriteExport(
                which.study,
                Config.from_json(which.config),
                which.step,
                metrics,
                *plan.runtime.place,
                found,
                target,
            )
            await asyncio.to_thread(self._hub.export, plan, question)
        except BaseException:
            scratch.remove()
            raise
        return sent_file(target, scratch)

    async def _which(self, request: Request) -> tuple[ServedPlan, WhichModel]:
        plan = self._hub.plan(request.path_params["key"])
        return plan, await read_body(request, WhichModel, self._guard.limits.body_bytes)

    async def _found(self, plan: ServedPlan, which: WhichModel) -> tuple[Checkpoint, dict[str, float]]:
        config = Config.from_json(which.config)

        def look() -> tuple[Checkpoint, dict[str, float]]:
            try:
                node = plan.runtime.plan.find(config, which.step, which.isolation_key).holder(which.step)
                return node.checkpoints[which.step], dict(node.metrics.get(which.step, (0, {}))[1])
            except LookupError:
                raise NotHere(f"there is no checkpoint of that config at step {which.step}") from None

        return await plan.ask(look)


def sent_file(path: Path, scratch: Scratch | None = None) -> Response:
    """Send a file; a scratch folder goes afterwards."""
    try:  # no link: code of clients may have written here, as a user who can read less
        descriptor = os.open(path, os.O_RDONLY | portable.NOT_THROUGH_LINKS)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    size = os.fstat(descriptor).st_size
    if scratch is not None:
        scratch.remove()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            while part := await asyncio.to_thread(os.read, descriptor, _PART):
                yield part
        finally:
            os.close(descriptor)

    headers = {"content-length": str(size)}
    return StreamingResponse(parts(), media_type="application/octet-stream", headers=headers)
