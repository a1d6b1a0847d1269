"""sha256 sums of public traces: a forged or cut copy under a famous name is told, not believed."""

from pathlib import Path

SUMS = {
    "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6": (
        "AzureLLMInferenceTrace_code.csv",
        "azure2023.code",
    ),
    "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8": (
        "AzureLLMInferenceTrace_conv.csv",
        "azure2023.conv",
    ),
    "4bb3783693d0a435686fbfc885615d2349bd067239079fa4b749f2e679e12122": (
        "BurstGPT_1.csv",
        "burstgpt.1",
    ),
    "56193aa9b2bb26128ded43d2d29a960df6bf5af062bcfc9b005f3fcaa4e6e501": (
        "BurstGPT_without_fails_2.csv",
        "burstgpt.2",
    ),
    "2299986a07388aa303ec2c41d1131e756db650a39ed6ef9dfe7cc3d7f9a43b8f": (
        "BurstGPT_3.csv",
        "burstgpt.3",
    ),
    "48a2db1a13d3bc05e6330140c64f604ba366df20d3c9e128b5c35a01c1fa5f71": (
        "toolagent_trace.jsonl",
        "mooncake.toolagent",
    ),
}
"""sha256 → (published file name, source name)."""

_FILE_NAMES = {file_name for file_name, _ in SUMS.values()}


def is_known(path: Path, sha256: str) -> bool | None:
    """True: the published bytes. False: a published name over other bytes. None: cannot tell."""
    if sha256 in SUMS:
        return True
    return False if path.name in _FILE_NAMES else None


def source_name(sha256: str) -> str | None:
    return SUMS[sha256][1] if sha256 in SUMS else None
