// SPDX-License-Identifier: Apache-2.0
// signin.mjs URL - the button of the dashboard that signs in by an issuer, in a real browser: there, back, and signed in; and
// answers that nobody asked for. JSON on stdout; exit 77 where there is no browser. Started by tests/integ/test_oidc.py.
import fs from 'node:fs';

const url = process.argv[2];
const browser_path = ['/usr/bin/chromium', '/usr/bin/chromium-browser', process.env.MUSTER_CHROMIUM].find(file => file && fs.existsSync(file)) || process.exit(77);
let chromium;
try {
  ({ chromium } = await import('playwright-core'));
} catch {
  process.exit(77);
}

const browser = await chromium.launch({ executablePath: browser_path, args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] });
const result = { asked: [], wrong: [] };
try {
  // The certificates are those of a test; who issued them is not what this is about.
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  const label = /^Sign in with localhost/;
  page.setDefaultTimeout(60000);
  page.on('pageerror', error => result.wrong.push(String(error)));
  page.on('request', request => {
    const at = new URL(request.url());
    if (at.pathname === '/authorize') result.asked.push(Object.fromEntries(at.searchParams));
  });
  await page.goto(url + '/queue');
  result.before = await page.evaluate(() => sessionStorage.getItem('muster-token'));
  // What was asked in no tab of this browser is not taken for an answer.
  await page.goto(url + '/?code=stolen&state=guessed');
  await page.getByRole('button', { name: label }).waitFor();
  result.unasked = await page.evaluate(() => sessionStorage.getItem('muster-token'));
  await page.goto(url + '/queue');
  await page.getByRole('button', { name: label }).click();
  await page.waitForFunction(() => sessionStorage.getItem('muster-token'));
  result.who = await page.evaluate(async () => (await fetch('/api/v1/whoami', { headers: { Authorization: 'Bearer ' + sessionStorage.getItem('muster-token') } })).json());
  await page.getByRole('heading', { level: 1 }).first().waitFor();
  result.button = await page.getByRole('button', { name: label }).count();
  const at = new URL(page.url());
  result.page = at.pathname + at.search;
  result.kept = await page.evaluate(() => sessionStorage.getItem('muster-signin'));
  // A tab that has asked, and is given the answer to something else.
  const other = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
  other.setDefaultTimeout(60000);
  await other.goto(url + '/');
  await other.evaluate(() => sessionStorage.setItem('muster-signin', JSON.stringify({ state: 's', nonce: 'n', verifier: 'v', page: '/' })));
  await other.goto(url + '/?code=x&state=another');
  await other.getByText('answer to another question').waitFor();
  result.other = await other.evaluate(() => sessionStorage.getItem('muster-token'));
} catch (error) {
  result.wrong.push(String(error.stack || error));
} finally {
  await browser.close();
}
console.log(JSON.stringify(result));
