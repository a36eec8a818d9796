// A browser, as far as signing in needs one: it keeps cookies, follows redirects, and sends forms.

/** One person's browser. */
export class Browser {
  /** Cookies by origin and name. */
  #cookies = new Map();

  /** One request; redirects are not followed. */
  async request(url, { method = "GET", form, headers = {} } = {}) {
    const origin = new URL(url).origin;
    const jar = this.#jar(origin);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, {
      method,
      redirect: "manual",
      headers: { ...(cookie === "" ? {} : { cookie }), ...(method === "POST" ? { origin } : {}), ...headers },
      body: form === undefined ? undefined : new URLSearchParams(form),
    });
    for (const line of response.headers.getSetCookie()) {
      const [pair, ...attributes] = line.split(/;\s*/);
      const name = pair.slice(0, pair.indexOf("="));
      if (attributes.some((attribute) => /^max-age=0$/i.test(attribute) || /^expires=thu, 01 jan 1970/i.test(attribute))) {
        jar.delete(name);
      } else {
        jar.set(name, pair.slice(pair.indexOf("=") + 1));
      }
    }
    return response;
  }

  /**
   * Visits an address and does what each page asks for, by `fill`, until a redirect leads to `end`: that address is
   * the outcome.
   */
  async visit(url, end, fill) {
    let next = { url: String(url) };
    for (let steps = 0; steps < 30; steps += 1) {
      const response = await this.request(next.url, next);
      const location = response.headers.get("location");
      if (location !== null) {
        const to = new URL(location, next.url);
        if (`${to.origin}${to.pathname}` === end) return to;
        next = { url: String(to) };
        continue;
      }
      const page = await response.text();
      if (!response.ok) throw new Error(`${next.url} answered ${response.status}: ${page.slice(0, 500)}`);
      const form = firstForm(page, next.url);
      next = { url: form.action, method: "POST", form: fill(form.fields, page) };
    }
    throw new Error(`${url} never led to ${end}`);
  }

  #jar(origin) {
    if (!this.#cookies.has(origin)) this.#cookies.set(origin, new Map());
    return this.#cookies.get(origin);
  }
}

/** The first form of a page: where it is sent, and its fields with their values. */
export function firstForm(page, url) {
  const form = /<form[^>]*\baction="([^"]*)"[^>]*>([\s\S]*?)<\/form>/.exec(page);
  if (form === null) throw new Error(`${url} has no form: ${page.slice(0, 500)}`);
  const fields = {};
  for (const [input] of form[2].matchAll(/<input\b[^>]*>/g)) {
    const attribute = (name) => plain(new RegExp(`\\b${name}="([^"]*)"`).exec(input)?.[1] ?? "");
    fields[attribute("name")] = attribute("value");
  }
  return { action: String(new URL(plain(form[1]), url)), fields };
}

/** Agrees to everything, and signs in as `login` where `oidc-provider` asks who it is. */
export function agreeing(login) {
  return (fields) => {
    if (fields.prompt === "login") return { ...fields, login, password: "any" };
    return "transaction" in fields ? { ...fields, decision: "approve" } : fields;
  };
}

function plain(text) {
  const named = { amp: "&", lt: "<", gt: ">", quot: '"' };
  return text.replace(/&(amp|lt|gt|quot);/g, (_, name) => named[name]).replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code));
}
