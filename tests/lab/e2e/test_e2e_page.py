"""The page of an empty lab in a browser, under its Content-Security-Policy.

Cast: operator, in a browser.

Seen:
- the page works, and loads nothing from elsewhere;
- it is dark where the browser is, and has headings and a page for wrong addresses;
- packages, a VIM account and a service are made, changed after a look at what changes, and deleted.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from e2e_page import PASSWORD, Browser, By, Keys, browser, served
from e2e_support import Lab, Secrets
from support.dist import built

from lab.page.layout import LAYOUT

pytestmark = pytest.mark.long

FROM_ELSEWHERE = """
const [done] = arguments, found = [];
document.addEventListener('securitypolicyviolation', event => {
  found.push(event.effectiveDirective);
  if (found.length === 4) done(found.sort());
});
const add = (tag, more) => document.body.append(Object.assign(document.createElement(tag), more));
add('img', {src: 'http://127.0.0.1:9/x.png'});
add('script', {src: 'http://127.0.0.1:9/x.js'});
add('iframe', {src: 'http://127.0.0.1:9/'});
fetch('http://127.0.0.1:9/secret').catch(() => null);
"""


def test_the_page_works_under_its_policy_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    lab: Any = SimpleNamespace(home=tmp_path)
    with served(lab) as url, browser(url) as seen:
        seen.open("/")
        seen.login(PASSWORD)
        seen.text("Services")
        assert seen.severe() == []
        seen.driver.set_script_timeout(20)
        refused = seen.driver.execute_async_script(FROM_ELSEWHERE)
        assert refused == ["connect-src", "frame-src", "img-src", "script-src-elem"]


def test_the_page_follows_the_browser_into_the_dark_and_has_headings_and_a_404_of_its_own(
    tmp_path: Path,
) -> None:
    lab: Any = SimpleNamespace(home=tmp_path)
    with served(lab) as url, browser(url) as seen:
        scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        seen.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        seen.open("/")
        seen.login(PASSWORD)
        seen.text("Begin with an example")
        look = "return getComputedStyle(document.body).backgroundColor"
        assert seen.driver.execute_script(look) == "rgb(18, 18, 18)"
        button = seen.find("//button[contains(., 'New VIM account')]")
        assert button.value_of_css_property("color") == "rgba(144, 202, 249, 1)"  # 10 to 1
        assert seen.driver.execute_script("return document.documentElement.lang")
        for words, level in (("Lab", 1), ("Links", 2), ("Services", 2)):
            seen.find(f"//*[@role='heading'][@aria-level='{level}'][text()='{words}']")
        seen.open("/nothing")
        seen.text("There is no such page")
        seen.click("//a[text()='To the links and services of the lab']")
        seen.text("Links")


def write(seen: Browser, label: str, text: str) -> None:
    """Put a text in place of what a field has."""
    field = seen.find(f"//*[@aria-label='{label}']")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(text)


@pytest.mark.lab
def test_a_service_from_its_packages_to_its_deletion(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    names = ("vpn_basic_ns", "vpn_endpoint_vnf")
    dist = built(tmp_path_factory, names)
    lab = Lab(tmp_path / "lab", dist, Secrets())
    try:
        with served(lab) as url, browser(url) as seen:
            seen.open("/")
            seen.login(PASSWORD)
            seen.click("//button[contains(., 'New VIM account')]")
            seen.click("//button[normalize-space()='Create']")
            seen.find("//td[text()='lab']")
            files = "\n".join(str(dist / f"{name}.tar.gz") for name in names)
            seen.driver.find_element(By.XPATH, "//input[@type='file']").send_keys(files)
            seen.find("//td[text()='vpn_basic_ns']")
            seen.click("//button[@aria-label='Delete vpn_endpoint_vnf']")
            seen.click("//button[normalize-space()='Delete']")
            seen.text("There is at least one NS package referencing this descriptor")
            seen.click("//button[contains(., 'New service or slice')]")
            write(seen, "Name", "mine")
            seen.choose("Package", "vpn_basic_ns")
            (params,) = seen.driver.find_elements(
                By.XPATH, "//*[@role='dialog']//input[@type='file']"
            )
            params.send_keys(str(dist / "params/vpn_basic.yaml"))
            seen.wait_for("document.querySelector('[role=dialog] textarea').value.includes('vld')")
            seen.click("//button[normalize-space()='Create']")
            seen.text("Service mine")
            seen.text("vpn-server up")
            seen.choose("VNF", "mine/client")
            seen.text("vpn-client up")
            seen.choose("Primitive", "configure")
            seen.text("Set all parameters of one link")
            seen.click("//*[text()='Addresses and sizes']")
            write(seen, "mtu", "1300")
            send = "//button[normalize-space()='Send configure']"
            seen.click("//button[normalize-space()='Run configure']")
            seen.find("//tr[td[1]='mtu'][td[2]='0'][td[3]='1300']")
            seen.driver.save_screenshot(str(tmp_path / "diff.png"))
            seen.click("//button[normalize-space()='Cancel']")
            assert sent(lab).count("configure") == 0
            seen.click("//button[normalize-space()='Run configure']")
            seen.click(send)
            seen.find("//*[contains(text(), '\"mtu\": 1300')]")
            seen.driver.save_screenshot(str(tmp_path / "sent.png"))
            seen.click("//button[normalize-space()='Run configure']")
            seen.text("These values are in force. Nothing changes.")
            seen.click("//button[normalize-space()='Cancel']")
            assert sent(lab).count("configure") == 1
            lab.done("links", "mine")  # No timer looks at links in a test.
            phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
            seen.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
            seen.open("/")
            card = "//div[contains(@class, 'q-table__grid-item-card')]"
            for heading in LAYOUT["links"].values():
                seen.find(f"{card}//*[text()='{heading}']")
            seen.driver.save_screenshot(str(tmp_path / "phone.png"))
            seen.click(card)
            seen.text("Service mine")
            seen.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            assert seen.severe() == []
            seen.click("//button[contains(., 'Delete this service')]")
            seen.click("//button[normalize-space()='Delete']")
            seen.text("Begin with an example")
    finally:
        lab.done("lab", "clean")


def sent(lab: Lab) -> list[object]:
    return [o["operationParams"].get("primitive") for o in lab.engine.operations("mine")]
