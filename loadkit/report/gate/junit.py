"""The verdict as JUnit XML, one test case for each number: what continuous integration can show."""

import re
from xml.etree import ElementTree as ET

from loadkit.analysis.gate import Gate, Result
from loadkit.report.gate import words

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def gate_junit(found: Gate, *, inconclusive_passes: bool) -> bytes:
    """`failure` = REGRESSION (and INCONCLUSIVE unless it passes), `error` = INVALID, else `skipped`."""
    suite = ET.Element("testsuite", name="loadkit gate", tests=str(len(found.results)))
    for result in found.results:
        name = f"{result.load} {result.rule.measure.title}"
        case = ET.SubElement(suite, "testcase", classname=_text(result.lane), name=_text(name))
        kind = _kind(result, inconclusive_passes=inconclusive_passes)
        if kind:
            message = f"{result.verdict}: {words.change(result)} ({words.interval(result)})"
            ET.SubElement(case, kind, message=_text(message)).text = _text(result.why)
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{kind}"))))
    ET.indent(suite)
    written: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written


def _kind(result: Result, *, inconclusive_passes: bool) -> str:
    if result.verdict == "INVALID":
        return "error"
    if result.verdict == "REGRESSION":
        return "failure"
    if result.verdict == "INCONCLUSIVE":
        return "skipped" if inconclusive_passes else "failure"
    return ""


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
