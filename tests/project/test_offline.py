"""Nothing asks the network of its own accord: seen by Python's audit hooks, and below Python by strace."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys

import pytest

from equipoise import _telemetry as telemetry
from tests.helpers.common import ROOT, component

GUARD = ROOT / "tests" / "offline"
PACKAGES = (ROOT / "src" / "equipoise", ROOT / "mini" / "src" / "equipoise_mini")
PATH = os.pathsep.join(map(str, (GUARD, *(package.parent for package in PACKAGES), ROOT)))
SENT = re.compile(
    r"(?:connect|sendto|sendmsg|sendmmsg)\(.*sin6?_port=htons\((\d+)\).*\"([\w.:]+)\""
)
DNS = 53


@pytest.fixture
def home(tmp_path):
    """An empty home, where a library that keeps something of its own accord shows."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def environment(home, **given):
    """The user's, without the switches and with an empty home."""
    kept = {name: os.environ[name] for name in os.environ if name not in telemetry.SWITCHES}
    apart = {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "EQUIPOISE_CACHE": str(home.parent / "cache"),
        "NUMBA_CACHE_DIR": str(home.parent / "numba"),
        "NETWORK_TRIED": str(home.parent / "tried.txt"),
        "PYTHONPATH": PATH,
    }
    return kept | apart | given


def run(command, home, **given):
    """Run a command under the guard of Python; it must succeed."""
    done = subprocess.run(
        [*map(str, command)],
        env=environment(home, **given),
        cwd=home.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def tried(home):
    """What Python was asked for beyond this machine."""
    log = home.parent / "tried.txt"
    return log.read_text().splitlines() if log.exists() else []


def left_in(home):
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


def strace():
    """The tracer, or a skip with a reason; a failure where everything must be there."""
    if found := shutil.which("strace"):
        return found
    if os.environ.get("EQUIPOISE_REQUIRE_ALL"):
        pytest.fail("strace is not installed, and everything must be here")
    pytest.skip("strace is not installed; on Debian: apt-get install strace")


def traced(command, home, also=(), **given):
    """Run a command under both guards; the addresses that it and its children sent anything to."""
    log = home.parent / "trace.txt"
    tracer = [strace(), "-f", "--seccomp-bpf", "-e", "trace=connect,sendto,sendmsg,sendmmsg"]
    run([*tracer, "-o", log, *command], home, **given)
    found = [SENT.search(line) for line in log.read_text(errors="replace").splitlines()]
    sent = {(match[2], int(match[1])) for match in found if match}
    here = ("127.", "::1", *also)
    return {(host, port) for host, port in sent if port == DNS or not host.startswith(here)}


# The switches


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_flips_its_switches_before_it_imports_anything_else(package):
    """So that no file of it, and no library that one imports, can import onnxruntime before them."""
    first, *rest = ast.parse((package / "__init__.py").read_text()).body
    assert isinstance(first, ast.Expr)
    statements = [ast.unparse(line) for line in rest]
    before = statements[: statements.index("telemetry.switch_off()")]
    allowed = {"from __future__ import annotations", f"from {package.name} import telemetry"}
    allowed.add(f"from {package.name} import _telemetry as telemetry")
    assert set(before) <= allowed
    [switches] = package.glob("*telemetry.py")
    lines = ast.walk(ast.parse(switches.read_text()))
    imports = [ast.unparse(n) for n in lines if isinstance(n, ast.Import | ast.ImportFrom)]
    assert imports == ["import os"]


@pytest.mark.parametrize(
    "code",
    [
        "import equipoise.encoders._onnx",
        "import equipoise_mini.drawing, onnxruntime",
        pytest.param(
            "import equipoise, diffusers; diffusers.OnnxRuntimeModel", marks=pytest.mark.slow
        ),
    ],
)
def test_onnxruntime_keeps_no_device_id_however_it_is_imported(code, home):
    component("onnxruntime")
    if "diffusers" in code:
        component("diffusers")
    run([sys.executable, "-c", f"{code}; import sys; assert 'onnxruntime' in sys.modules"], home)
    assert left_in(home) == []


def test_the_switches_reach_child_processes_and_the_libraries(home):
    component("huggingface_hub")
    told = "import huggingface_hub.constants as c, os; print(c.HF_HUB_DISABLE_TELEMETRY, *[os.environ[n] for n in names])"
    child = f"names = {list(telemetry.SWITCHES)!r}; {told}"
    code = f"import equipoise, subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    assert run([sys.executable, "-c", code], home).split() == [
        "True",
        *telemetry.SWITCHES.values(),
    ]


def test_a_switch_that_the_user_has_set_stays(home):
    code = "import equipoise, equipoise_mini, os; print(*[os.environ[n] for n in equipoise._telemetry.SWITCHES])"
    theirs = dict.fromkeys(telemetry.SWITCHES, "0") | {"RAY_USAGE_STATS_ENABLED": "1"}
    assert run([sys.executable, "-c", code], home, **theirs).split() == list(theirs.values())


# The guards themselves


@pytest.mark.parametrize(
    "code",
    [
        "socket.getaddrinfo('example.org', 80)",
        "socket.gethostbyname('example.org')",
        "socket.create_connection(('192.0.2.1', 80), timeout=1)",
        "socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 9))",
        "subprocess.run([sys.executable, '-c', 'import socket; socket.getaddrinfo(\"example.org\", 80)'])",
    ],
)
def test_the_guard_of_python_sees(code, home):
    attempt = f"import socket, subprocess, sys\ntry: {code}\nexcept OSError: pass"
    run([sys.executable, "-c", attempt], home)
    assert len(tried(home)) == 1


def test_strace_sees_what_python_does_not(home):
    """A look-up by the C library, as onnxruntime makes it."""
    code = "import ctypes; ctypes.CDLL(None).gethostbyname(b'nobody.example.org')"
    assert DNS in {port for _, port in traced([sys.executable, "-c", code], home)}
    assert tried(home) == []


# The promise


@pytest.mark.slow
def test_no_verb_asks_the_network_or_keeps_anything_for_others(home, tmp_path):
    """onnxruntime sent its first report seconds after it was imported: the verbs take longer."""
    component("equipoise_mini")
    work = tmp_path / "work"
    work.mkdir()
    script = GUARD / "every_verb.py"
    assert traced([sys.executable, script, work], home) == set()
    assert tried(home) == []
    assert left_in(home) == []
