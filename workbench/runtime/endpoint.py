"""A node as its links see it."""

from __future__ import annotations

from workbench.clusters import Node
from workbench.runtime.flows import Interface
from workbench.runtime.mailbox import Mailbox
from workbench.runtime.messages import Transfer
from workbench.runtime.state import State


class Endpoint:
    """Where links begin and end.

    `uplink` and `downlink` are None where the interface is not limited, `watchers` lists that grow
    by each transfer from or to the node; `up` is False from a crash to the restart.
    """

    def __init__(self, state: State, index: int, node: Node) -> None:
        self.state, self.index, self.name = state, index, node.name
        self.uplink = None if node.uplink is None else Interface(node.uplink)
        self.downlink = None if node.downlink is None else Interface(node.downlink)
        self.mailbox = Mailbox(state.env)
        self.watchers: list[list[Transfer]] = []
        self.up = True
