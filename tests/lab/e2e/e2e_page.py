"""The page of `osm-lab serve` in a real browser."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from e2e_support import Lab
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

PASSWORD = "not a default"
DRIVER = "/usr/bin/chromedriver"
SECONDS = 60.0


@contextmanager
def served(lab: Lab) -> Iterator[str]:
    """Run `osm-lab serve` and yield the address of the page."""
    argv = [sys.executable, "-m", "lab.cli", "--home", str(lab.home), "serve", "--port", "0"]
    process = subprocess.Popen(
        argv, stderr=subprocess.PIPE, text=True, env={**os.environ, "OSMLAB_PASSWORD": PASSWORD}
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if match := re.match(r"(https://\S+), a page for browsers", line):
                yield match[1]
                break
        else:
            raise AssertionError("osm-lab serve ended without a page")
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


class Browser:
    def __init__(self, url: str, width: int, height: int) -> None:
        if not (shutil.which("chromium") and os.path.exists(DRIVER)):
            pytest.skip("no Chromium on this machine")
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for word in ("headless=new", "no-sandbox", "ignore-certificate-errors", "disable-gpu"):
            options.add_argument(f"--{word}")
        options.add_argument(f"--window-size={width},{height}")
        self.url = url
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))

    def open(self, path: str) -> None:
        self.driver.get(self.url + path)

    def find(self, xpath: str) -> WebElement:
        def look(driver: webdriver.Chrome) -> WebElement | None:
            found = driver.find_elements(By.XPATH, xpath)
            return next((each for each in found if each.is_displayed()), None)

        result: WebElement = WebDriverWait(self.driver, SECONDS).until(look, xpath)
        return result

    def text(self, words: str) -> None:
        """Wait until the page shows a text."""
        self.find(f"//*[contains(normalize-space(text()), '{words}')]")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression of JavaScript is true."""
        WebDriverWait(self.driver, SECONDS).until(
            lambda driver: driver.execute_script(f"return {expression}"), expression
        )

    def click(self, xpath: str) -> None:
        """Click at an element as soon as that works."""

        def go(_: webdriver.Chrome) -> bool:
            self.find(xpath).click()
            return True

        ignored = [Exception]
        WebDriverWait(self.driver, SECONDS, ignored_exceptions=ignored).until(go, xpath)

    def login(self, password: str) -> None:
        field = self.find("//input[@type='password']")
        field.send_keys(Keys.CONTROL, "a")  # the page would put back what clear() took
        field.send_keys(password)
        self.click("//button[contains(., 'Log in')]")

    def choose(self, label: str, option: str) -> None:
        self.click(f"//label[.//*[text()='{label}']]")
        self.click(f"//*[@role='option'][.//*[text()='{option}']]")

    def severe(self) -> list[str]:
        """Return the errors of the browser's console."""
        return [
            row["message"] for row in self.driver.get_log("browser") if row["level"] == "SEVERE"
        ]


@contextmanager
def browser(url: str, width: int = 1280, height: int = 1000) -> Iterator[Browser]:
    opened = Browser(url, width, height)
    try:
        yield opened
    finally:
        opened.driver.quit()
