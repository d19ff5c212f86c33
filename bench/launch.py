"""What bench/run and bench/run-mpi share: running a program, and what they say of it."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MPI_ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TIME_LIMIT = 300  # seconds for one program


class Missing(Exception):
    """A program that this comparison needs is not here."""


class Failed(Exception):
    """A program ended badly or said something unexpected."""


def program(build, name):
    path = os.path.join(build, name)
    if not os.access(path, os.X_OK):
        raise Missing(path)
    return path


def tool(name):
    path = shutil.which(name)
    if not path:
        raise Missing(name)
    return path


def orielrun(build, ranks, *command):
    launcher = os.environ.get("ORIELRUN") or program(build, "tools/orielrun")
    return [launcher, "-n", str(ranks), *command]


def mpirun(launcher, kind, ranks, *command):
    # The programs pin themselves, all in the same way.
    flags = ["--bind-to", "none", "--oversubscribe"] if kind == "openmpi" else []
    return [launcher, *flags, "-n", str(ranks), *command]


def size_text(n):
    for shift, unit in ((20, "M"), (10, "K")):
        if n >= 1 << shift and n % (1 << shift) == 0:
            return f"{n >> shift}{unit}"
    return str(n)


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + text)
        sys.stderr.flush()


def session(leader):
    """The processes of a session, which a launcher's ranks stay in when it dies."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[3] == str(leader):
            found.append(int(entry))
    return found


def end(process):
    """Ends a launcher and its ranks: it gets the time to do so itself."""
    process.terminate()
    until = time.monotonic() + 5
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    for pid in session(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def end_on_term():
    """A SIGTERM ends this program as an exception does: with what it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def finish(command, env=None, limit=TIME_LIMIT):
    """Runs one program: its status (None: it did not end in time), output, errors."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, env=dict(os.environ, **(env or {})), stdout=out,
                                   stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                end(process)
        out.seek(0)
        err.seek(0)
        return status, out.read(), err.read()


def run(command, env=None):
    """Runs one program; its output."""
    status, out, err = finish(command, env)
    if status is None:
        raise Failed(f"{' '.join(command)}: no end within {TIME_LIMIT} s")
    if status:
        raise Failed(f"{' '.join(command)}: status {status}\n{(out + err).strip()[-2000:]}")
    return out


def load():
    return f"{os.getloadavg()[0]:.1f}"


def describe_machine():
    model = "unknown CPU"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            model = re.search(r"^model name\s*:\s*(.*)$", info.read(), re.M)[1]
    except (OSError, TypeError):
        pass
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs, load {load()} at the start"
