"""Flower as the transport of a federation: its SuperLink and SuperNodes carry the tasks and replies of `exchange`.

    SuperLink ── server (ServerApp): `federate`, `train_rounds` ── results in a folder
        └ SuperNode of each site ── client (ClientApp): `Site.answer`

Flower and the command line of scare need other versions of one package (typer), so this file runs in an environment of
Flower's own, in which scare is installed without its dependencies' limits (docs/federate.md). A ClientApp is started
anew for each task; what a site has answered is kept in Flower's context, and a task that is given again gets the same
reply.
"""

import json
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from scare.data.column_mapping import DataSection
from scare.errors import DataError, ScareError
from scare.federated.agreement import Agreement, agreement_from_server, read_agreement
from scare.federated.exchange import save_results
from scare.federated.pooled import federate
from scare.federated.site import DONE, Site, Values, read_site
from scare.files import replacing

ATTEMPTS = 2  # to give a site its task
WHO_SECONDS = 30.0  # that a node may take to say which site it is
POLL_SECONDS = 1.0  # between two looks whether all sites have come
WHO = "who"  # the first task of a node: which site it is
server = ServerApp()
client = ClientApp()


@server.main()
def serve(grid: Grid, context: Context) -> None:
    """Run a federation: `agreement` and `out` of the run config are the server's file and the folder of results."""
    agreement = read_agreement(Path(str(context.run_config["agreement"])))
    out = Path(str(context.run_config["out"]))
    nodes = _find_sites(grid, agreement)

    def ask(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Values]:
        """Give each site its task; a site whose node was started anew meanwhile gets it again."""
        found: dict[str, Values] = {}
        for attempt in range(ATTEMPTS):
            missing = [site for site in tasks if site not in found]
            if attempt and missing:
                nodes.update(_find_sites(grid, agreement))
            given = {nodes[site]: {"agreement": agreement.for_sites, "task": tasks[site]} for site in missing}
            replies = _exchange(grid, given, agreement.rules.patience) if given else {}
            found |= {site: replies[nodes[site]] for site in missing if nodes[site] in replies}
        return {site: found[site] for site in tasks if "error" not in found.get(site, {"error": "no reply"})}

    federation = federate(ask, agreement)
    calibrator = federation.calibrator
    if agreement.network is not None:
        from scare.training.rounds import train_rounds

        calibrator = train_rounds(ask, agreement, federation)
    path = calibrator.save(out / "federated.scare")
    ask(federation.last_tasks(path.read_bytes(), list(federation.moments)))


@client.query()
def answer(message: Message, context: Context) -> Message:
    """Answer a task; `site`, `files` (separated by commas) and `out` of the node config are those of this site."""
    given = json.loads(str(message.content["task"]["json"]))
    config = context.node_config
    try:
        reply = _answer(given, context, Path(str(config["out"]))) if given != WHO else {"site": str(config["site"])}
    except ScareError as error:
        reply = {"error": str(error)}
    return Message(RecordDict({"reply": ConfigRecord({"json": json.dumps(reply)})}), reply_to=message)


def _answer(given: Mapping[str, Any], context: Context, out: Path) -> Values:
    task = given["task"]
    agreement = agreement_from_server(given["agreement"], "the server")
    files = [Path(file) for file in str(context.node_config["files"]).split(",")]
    readings = read_site(files, agreement, DataSection(), lambda _: None)
    if task["kind"] == DONE:
        save_results(task, readings, out)
        return {}
    digest = sha256(json.dumps(task).encode()).hexdigest()
    if "last" in context.state and context.state["last"]["digest"] == digest:  # the reply was lost on its way
        repeated: Values = json.loads(str(context.state["last"]["reply"]))
        return repeated
    network = None
    if agreement.network is not None:
        from scare.training.rounds import NetworkSite

        network = NetworkSite(readings, agreement).answer
    site = Site(readings, agreement, None, network)
    answered = json.loads(str(context.state["answered"]["json"])) if "answered" in context.state else {}
    site.answered.update(answered)
    reply = site.answer(task)
    context.state["answered"] = ConfigRecord({"json": json.dumps(site.answered)})
    context.state["last"] = ConfigRecord({"digest": digest, "reply": json.dumps(reply)})
    with replacing(out / "sent" / f"{time.time_ns()}-{task['kind']}.json") as temporary:
        temporary.write_text(json.dumps(reply), encoding="utf-8")
    return reply


def _find_sites(grid: Grid, agreement: Agreement) -> dict[str, int]:
    """Wait until every site has a node, and return the nodes by site."""
    while True:
        replies = _exchange(grid, dict.fromkeys(grid.get_node_ids(), WHO), WHO_SECONDS)
        nodes = {str(reply.get("site")): node for node, reply in replies.items()}
        if unknown := sorted(nodes.keys() - agreement.sites.keys()):
            raise DataError(f"a node says that it is '{unknown[0]}', which is no site of [sites]")
        if nodes.keys() == agreement.sites.keys():
            return nodes
        time.sleep(POLL_SECONDS)


def _exchange(grid: Grid, tasks: Mapping[int, Any], patience: float) -> dict[int, Values]:
    """Send each node its task and return the replies of those that answer in time."""
    messages = [
        Message(RecordDict({"task": ConfigRecord({"json": json.dumps(task)})}), dst_node_id=node, message_type="query")
        for node, task in tasks.items()
    ]
    replies = grid.send_and_receive(messages, timeout=patience)
    return {
        reply.metadata.src_node_id: json.loads(str(reply.content["reply"]["json"]))
        for reply in replies
        if not reply.has_error()
    }
