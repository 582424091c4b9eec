"""The page of an empty lab in a browser, under its Content-Security-Policy.

Cast: operator, in a browser.

Seen:
- the page works, and loads nothing from elsewhere;
- it is dark where the browser is, and has headings and a page for wrong addresses.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from e2e_page import PASSWORD, browser, served

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
        seen.text("none yet; osm-lab ns-create makes one")
        look = "return getComputedStyle(document.body).backgroundColor"
        assert seen.driver.execute_script(look) == "rgb(18, 18, 18)"
        assert seen.driver.execute_script("return document.documentElement.lang")
        for words, level in (("Lab", 1), ("Links", 2), ("Services", 2)):
            seen.find(f"//*[@role='heading'][@aria-level='{level}'][text()='{words}']")
        seen.open("/nothing")
        seen.text("There is no such page")
        seen.click("//a[text()='To the links and services of the lab']")
        seen.text("Links")
