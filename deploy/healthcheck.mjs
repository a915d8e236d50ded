/**
 * The container's health check: `node healthcheck.mjs [PID]` exits with 0 if the service answers, and captures or still
 * tries to, and with 1 otherwise. It prints the state of capture, which `docker inspect` shows. A separate process in
 * the container.
 *
 * It takes host, port and scheme from the variables, from the files that `--env-file` names, and from the flags of the
 * service's command line (PID, or process 1). It does not check the certificate, because the connection stays on this
 * machine and the certificate names another host.
 *
 * Degraded capture is no reason to replace a container: it still forwards, and a new one would have the same
 * disk. Stopped capture is a reason, since only a new process starts it again.
 */
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { basename } from 'node:path';
import { parseEnv } from 'node:util';

const DEADLINE_MS = 2_000;
/** Larger than any answer that this script requests. */
const ANSWER_BYTES = 1 << 20;
/** For each command: the listener that --host and --port set, and the listeners that must answer. */
const COMMANDS = {
  up: { flagged: 'gateway', listeners: ['api', 'gateway'] },
  serve: { flagged: 'api', listeners: ['api'] },
  gateway: { flagged: 'gateway', listeners: ['gateway'] },
  proxy: { flagged: 'proxy', listeners: ['gateway'] },
};

const words = readCommandLine(process.argv[2] ?? '1');
const variables = { ...readEnvFiles(words), ...process.env };
const command = findCommand(words);
const [api, gateway] = await Promise.all([
  ask('api', '/health', { host: 'HOST', port: 'PORT', cert: 'TLS_CERT', usual: '8000' }),
  ask('gateway', '/__gw/stats', { host: 'GW_HOST', port: 'GW_PORT', cert: 'GW_TLS_CERT', usual: '8787' }),
]);
const { status = 'none', reasons = [] } = gateway?.body ?? {};
console.log([`capture: ${status}`, ...reasons.map(({ text }) => text)].join('. '));
const parts = [api, gateway].filter((part) => part !== null);
process.exitCode = parts.length > 0 && parts.every(({ ok }) => ok) && status !== 'stopped' ? 0 : 1;

/** Reads the words of a process's command line; empty if it cannot be read. */
function readCommandLine(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
  } catch {
    return [];
  }
}

/** Reads the variables that the files of Node's `--env-file` set; a later file replaces values of an earlier one. */
function readEnvFiles(words) {
  const set = {};
  for (const word of words) {
    const [, file] = /^--env-file(?:-if-exists)?=(.+)$/.exec(word) ?? [];
    if (file === undefined) continue;
    try {
      Object.assign(set, parseEnv(readFileSync(file, 'utf8')));
    } catch {
      // The service reports a file that it needs but cannot read.
    }
  }
  return set;
}

/** Finds the command of the service and its flags. @returns null if the command line is not the service's */
function findCommand(words) {
  const at = words.findIndex((word) => /^understudy/.test(basename(word)));
  const name = words[at + 1];
  if (at < 0 || !Object.hasOwn(COMMANDS, name)) return null;
  const flags = {};
  for (const [index, word] of words.entries()) {
    const [, flag, value = words[index + 1]] = /^--(host|port)(?:=(.*))?$/.exec(word) ?? [];
    if (index > at && flag !== undefined) flags[flag] = value;
  }
  return { ...COMMANDS[name], flags };
}

/**
 * Requests a path of a listener.
 * @param names the variables of the listener's host, port and certificate, and its usual port
 * @returns the answer, with `ok: false` if none arrived; null if nothing listens and the command does not start this
 *   listener
 */
async function ask(listener, path, names) {
  const flags = command?.flagged === listener ? command.flags : {};
  const host = flags.host || variables[names.host] || '127.0.0.1';
  const port = flags.port || variables[names.port] || names.usual;
  const { get } = variables[names.cert] ? https : http;
  // A listener on every address is reached over loopback.
  const address = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  try {
    return await read(get, { host: address, port, path, rejectUnauthorized: false });
  } catch (thrown) {
    if (thrown?.code === 'ECONNREFUSED' && !command?.listeners.includes(listener)) return null;
    return { ok: false, body: {} };
  }
}

async function read(get, options) {
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const response = await new Promise((resolve, reject) => {
    get({ ...options, signal, agent: false }, resolve).on('error', reject);
  });
  let text = '';
  for await (const piece of response.setEncoding('utf8')) {
    text += piece;
    if (text.length > ANSWER_BYTES) throw new Error('the answer is too long');
  }
  return { ok: response.statusCode === 200, body: JSON.parse(text) };
}
