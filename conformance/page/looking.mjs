// How pages look, and to whom. Pictures of them go to the folder that is the third argument of the program, if there is one.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

const pictures = process.argv[4];
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };

/** A desk on which all is twice as large. */
export const ZOOMED = { colorScheme: "light", viewport: { width: 640, height: 450 }, deviceScaleFactor: 2 };

/** How people look at pages: on a desk and on a telephone, in the light and in the dark. */
export function looks() {
  const sizes = [1280, 390].map((width) => ({ viewport: { width, height: 900 } }));
  return ["light", "dark"].flatMap((colorScheme) => sizes.map((size) => ({ colorScheme, ...size })));
}

/** A page as it is looked at; whoever is read to is told all of it. */
export async function inspected(page, name, look) {
  const where = await fits(page, name, look);
  await page.evaluate(axe);
  const { violations } = await page.evaluate((rules) => globalThis.axe.run(document, rules), RULES);
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
  assert.deepEqual(found, [], where);
}

/** Nothing of a page is beside the window. */
export async function fits(page, name, { colorScheme, viewport: { width } }) {
  if (pictures) await page.screenshot({ path: join(pictures, `${name}-${colorScheme}-${width}.png`), fullPage: true });
  const where = `${name}, ${colorScheme}, ${width}`;
  const { scrolls, headings } = await page.evaluate(() => ({
    scrolls: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    headings: document.querySelectorAll("h1").length,
  }));
  assert.equal(scrolls, 0, `it scrolls sideways: ${where}`);
  assert.equal(headings, 1, where);
  if (name === "tools" && width === 1280) {
    const lines = await page.getByRole("cell", { name: "command", exact: true }).evaluateAll((all) => all.map((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return range.getClientRects().length;
    }));
    assert.ok(lines.length > 0 && lines.every((count) => count === 1), `words are cut: ${where}`);
  }
  return where;
}
