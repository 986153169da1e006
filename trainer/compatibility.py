"""Judges the CUDA software of a machine: one finding per part, each with one fix. Pure: reads nothing."""

from __future__ import annotations

from dataclasses import dataclass

Version2 = tuple[int, int]

OK, WARN, MISSING, WRONG, NOTE = "ok", "warn", "missing", "wrong", "note"
LOWEST_ARCHITECTURE = (8, 0)  # bfloat16 and TF32 products
CUDA_13_DROPS = (7, 5)  # CUDA 13 compiles for this compute capability and later ones
CUDA_MAJORS = (12, 13)  # foxtune has an extra for each
CPU_ONLY = "no GPU here: use --gpus-per-trial 0"


@dataclass(frozen=True)
class Finding:
    """One line of the table of ``foxtune doctor``.

    Attributes:
        part: What was looked at.
        found: Version or value.
        state: ``ok``, ``warn`` (works, with a reservation), ``note`` (fine for the CPU), ``missing`` or
            ``wrong``.
        fix: What to type or change; empty where nothing is to do.
    """

    part: str
    found: str
    state: str
    fix: str = ""


@dataclass(frozen=True)
class CudaStack:
    """Versions found on a machine; None for what is not there.

    Attributes:
        driver: CUDA version that the driver supports.
        gpu: Name of the first visible GPU.
        devices: How many GPUs the driver shows, whether torch can use them or not.
        visible: ``CUDA_VISIBLE_DEVICES``, None where it is not set.
        architecture: Compute capability of that GPU.
        torch_cuda: CUDA version that torch was built for; None for a CPU build.
        torch_architectures: Compute capabilities in torch's own binaries; empty where unknown.
        nvrtc: CUDA version of the run-time compiler.
        nvrtc_architectures: What it compiles for, as 10 major + minor.
        cupy: (distribution, version) of every installed CuPy.
        runtime: CUDA version of the runtime library that CuPy uses.
        cupy_error: Why CuPy cannot be imported; empty if it can.
        cuda_path: ``CUDA_PATH``, None where it is not set.
        cuda_path_version: CUDA version of the headers in it.
    """

    driver: Version2 | None = None
    gpu: str | None = None
    devices: int = 0
    visible: str | None = None
    architecture: Version2 | None = None
    torch_cuda: Version2 | None = None
    torch_architectures: tuple[int, ...] = ()
    nvrtc: Version2 | None = None
    nvrtc_architectures: tuple[int, ...] = ()
    cupy: tuple[tuple[str, str], ...] = ()
    runtime: Version2 | None = None
    cupy_error: str = ""
    cuda_path: str | None = None
    cuda_path_version: Version2 | None = None

    @property
    def extra(self) -> str:
        """The extra of foxtune that fits torch, else the driver."""
        known = self.torch_cuda or self.driver
        return "cuda12" if known is not None and known[0] < 13 else "cuda13"


def judge(stack: CudaStack) -> tuple[Finding, ...]:
    """Returns the table's lines from the driver to CUDA_PATH."""
    return (
        driver_finding(stack),
        torch_finding(stack),
        architecture_finding(stack),
        nvrtc_finding(stack),
        cupy_finding(stack),
        runtime_finding(stack),
        *cuda_path_findings(stack),
    )


def obstacle(stack: CudaStack) -> str:
    """Returns why the fused backend cannot run here, with the fix; empty if it can."""
    return _first(stack, (MISSING, WRONG, NOTE))


def breakage(stack: CudaStack) -> str:
    """Returns what is installed but cannot work, with the fix; empty where parts are merely absent."""
    return _first(stack, (MISSING, WRONG))


def _first(stack: CudaStack, states: tuple[str, ...]) -> str:
    stops = (finding for finding in judge(stack) if finding.state in states)
    return next((f"{each.part} {each.found}; {each.fix}" for each in stops), "")


def driver_finding(stack: CudaStack) -> Finding:
    """A driver must know the major version of every CUDA library, and better the minor one too."""
    part = "NVIDIA driver"
    if stack.driver is None:
        return Finding(part, "none", NOTE, CPU_ONLY)
    found = f"CUDA {_text(stack.driver)}"
    libraries = {"runtime": stack.runtime, "NVRTC": stack.nvrtc, "torch": stack.torch_cuda}
    newest = max(((version, name) for name, version in libraries.items() if version), default=None)
    if newest is None or newest[0] <= stack.driver:
        return Finding(part, found, OK)
    version, name = newest
    wanted = f"update the driver to one for CUDA {_text(version)} or newer ({name} {_text(version)})"
    if version[0] > stack.driver[0]:
        if stack.driver[0] in CUDA_MAJORS:
            wanted += f", or install foxtune[cuda{stack.driver[0]}] and a torch for CUDA {stack.driver[0]}"
        return Finding(part, found, WRONG, wanted)
    # Within a major version the driver loads newer machine code; it refuses newer PTX, which we never load.
    return Finding(part, found, WARN, f"works within CUDA {version[0]}; better {wanted}")


def architecture_finding(stack: CudaStack) -> Finding:
    """A GPU can be too old for the kernels, or newer than the compiler."""
    part = "GPU"
    if stack.architecture is None:
        if stack.devices:
            return _unusable_gpu(stack)
        if stack.visible is None:
            return Finding(part, "0 GPUs visible", NOTE, CPU_ONLY)
        fix = CPU_ONLY if stack.driver is None else "unset CUDA_VISIBLE_DEVICES, or use --gpus-per-trial 0"
        return Finding(part, f"0 GPUs visible (CUDA_VISIBLE_DEVICES={stack.visible!r})", NOTE, fix)
    number = 10 * stack.architecture[0] + stack.architecture[1]
    found = f"{stack.gpu}, sm_{number}"
    if stack.architecture < LOWEST_ARCHITECTURE:
        dropped = ", and CUDA 13 no longer compiles for it" if stack.architecture < CUDA_13_DROPS else ""
        return Finding(
            part, found, NOTE, f"the fused backend needs sm_80 or newer{dropped}: use --backend reference"
        )
    if stack.nvrtc_architectures and number > max(stack.nvrtc_architectures):
        newest = f"NVRTC {_text(stack.nvrtc)} compiles up to sm_{max(stack.nvrtc_architectures)}"
        return Finding(part, found, WRONG, f'{newest}: pip install --upgrade "foxtune[{stack.extra}]"')
    return Finding(part, found, OK)


def _unusable_gpu(stack: CudaStack) -> Finding:
    found = f"{stack.devices} seen by the driver, 0 by torch"
    if stack.torch_cuda is None:
        return Finding("GPU", found, NOTE, "needs a CUDA build of torch")
    if driver_finding(stack).state == WRONG:
        return Finding("GPU", found, WRONG, "mend the driver first")
    return Finding("GPU", found, WRONG, 'python -c "import torch; torch.cuda.init()" says why')


def torch_finding(stack: CudaStack) -> Finding:
    """Torch must be a CUDA build that holds code for the GPU's generation."""
    part = "CUDA in torch"
    if stack.torch_cuda is None:
        if stack.driver is None:
            return Finding(part, "CPU build", NOTE, CPU_ONLY)
        return Finding(part, "CPU build", NOTE, "for the GPU: pip uninstall -y torch && pip install torch")
    found = _text(stack.torch_cuda)
    generations = {number // 10 for number in stack.torch_architectures}
    if stack.architecture is not None and generations and stack.architecture[0] > max(generations):
        return Finding(part, found, WRONG, "torch has no code for this GPU yet: pip install --upgrade torch")
    return Finding(part, found, OK)


def nvrtc_finding(stack: CudaStack) -> Finding:
    """The kernels are compiled on this machine."""
    if stack.nvrtc is not None:
        return Finding("NVRTC", _text(stack.nvrtc), OK)
    return _absent("NVRTC", stack)


def cupy_finding(stack: CudaStack) -> Finding:
    """At most one CuPy: all of them unpack into the same folder and overwrite each other."""
    part = "CuPy"
    if not stack.cupy:
        return _absent(part, stack)
    found = " and ".join(f"{name} {version}" for name, version in stack.cupy)
    names = " ".join(name for name, _ in stack.cupy)
    if len(stack.cupy) > 1:
        fix = f'pip uninstall {names}, then pip install -e ".[{stack.extra}]"'
        return Finding(part, found, WRONG, fix)
    if stack.cupy_error:
        again = f'pip uninstall -y {names} && pip install -e ".[{stack.extra}]"'
        return Finding(part, f"{found}: {stack.cupy_error}", WRONG if stack.driver else NOTE, again)
    return Finding(part, found, OK)


def runtime_finding(stack: CudaStack) -> Finding:
    """CuPy and torch may use different runtimes, but agree better on one."""
    part = "CUDA runtime"
    if stack.runtime is None:
        absent = _absent(part, stack)
        return absent if not stack.cupy else Finding(part, "unknown", absent.state, "mend CuPy first")
    if stack.torch_cuda is not None and stack.runtime[0] != stack.torch_cuda[0]:
        both = f"CuPy is for CUDA {stack.runtime[0]}, torch for {stack.torch_cuda[0]}"
        fix = f"{both}: better install foxtune[{stack.extra}]"
        return Finding(part, _text(stack.runtime), WARN, fix)
    return Finding(part, _text(stack.runtime), OK)


def cuda_path_findings(stack: CudaStack) -> tuple[Finding, ...]:
    """CUDA_PATH is shown where it is set; the kernels include no header but their own."""
    if stack.cuda_path is None:
        return ()
    if stack.cuda_path_version is None:
        found = f"no cuda.h in {stack.cuda_path}"
        fix = "not needed: the kernels include no CUDA headers; unset CUDA_PATH"
        return (Finding("CUDA_PATH", found, WARN, fix),)
    found = f"{_text(stack.cuda_path_version)} in {stack.cuda_path}"
    if stack.nvrtc is None or stack.cuda_path_version == stack.nvrtc:
        return (Finding("CUDA_PATH", found, OK),)
    both = f"headers {_text(stack.cuda_path_version)}, NVRTC {_text(stack.nvrtc)}"
    fix = f"{both}: harmless, the kernels include no CUDA headers; unset CUDA_PATH"
    return (Finding("CUDA_PATH", found, WARN, fix),)


def _absent(part: str, stack: CudaStack) -> Finding:
    fix = f'pip install -e ".[{stack.extra}]" for the GPU' if stack.driver is not None else CPU_ONLY
    return Finding(part, "none", NOTE, fix)


def split_version(number: int) -> Version2:
    """Splits CUDA's own number of a version, 12070, into (12, 7)."""
    return number // 1000, number % 1000 // 10


def _text(version: Version2 | None) -> str:
    return "none" if version is None else f"{version[0]}.{version[1]}"
