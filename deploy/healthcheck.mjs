/**
 * The container's health check: exit 0 when what runs in it answers and captures, or at least tries to; 1 otherwise. It prints
 * how capture is doing, which `docker inspect` shows. A process of its own, in the container.
 *
 * Degraded capture is no reason to replace a container: it still forwards, and a new one would have the same
 * disk. Stopped capture is a reason, since only a new process starts it again.
 */
const DEADLINE_MS = 2_000;
const { PORT = '8000', GW_PORT = '8787' } = process.env;

/** @returns null where nothing listens: that part was not started */
async function ask(address) {
  try {
    const response = await fetch(address, { signal: AbortSignal.timeout(DEADLINE_MS) });
    return { ok: response.ok, body: await response.json() };
  } catch (thrown) {
    if (thrown?.cause?.code === 'ECONNREFUSED') return null;
    return { ok: false, body: {} };
  }
}

const [api, gateway] = await Promise.all([
  ask(`http://127.0.0.1:${PORT}/health`),
  ask(`http://127.0.0.1:${GW_PORT}/__gw/stats`),
]);
const { status = 'none', reasons = [] } = gateway?.body ?? {};
console.log([`capture: ${status}`, ...reasons.map(({ text }) => text)].join('. '));
const parts = [api, gateway].filter((part) => part !== null);
process.exitCode = parts.length > 0 && parts.every(({ ok }) => ok) && status !== 'stopped' ? 0 : 1;
