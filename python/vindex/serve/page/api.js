// Owns requests to the server and how quantities are written.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `the server answered ${status}`);
    this.status = status;
    this.id = problem.id || "";
  }
}

/** JSON of a route, null for an answer without a body. Throws Refused, or TypeError where the
 *  server is not there. */
export async function ask(path, { method = "GET", body, headers = {} } = {}) {
  const options = { method, headers: { ...headers } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, options);
  if (answer.status === 204) return null;
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, value);
  return value;
}

/** A new job. The key makes a request that is sent again after a broken connection the same one. */
export async function queue(body) {
  const key = crypto.randomUUID ? crypto.randomUUID() : String(Math.random()) + Date.now();
  const send = () => ask("/v1/jobs", { method: "POST", body, headers: { "Idempotency-Key": key } });
  try {
    return await send();
  } catch (error) {
    if (error instanceof Refused) throw error;
    return send();
  }
}

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${unit && count < 100 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
