"""A worker's libraries take one thread each, as in `scare.executor`; set before anything imports them."""

import os

from scare.executor import ONE_THREAD

for name, value in ONE_THREAD.items():
    os.environ.setdefault(name, value)
