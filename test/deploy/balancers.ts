/**
 * The load balancers of deploy/, each with its own configuration over boxes of a test. Only names, ports and files are
 * replaced. Main thread of a test.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TEST_CERTIFICATE, TEST_KEY } from '../fixtures/certificate.ts';
import { findFreePort } from '../fixtures/free-port.ts';

const root = fileURLToPath(new URL('../../deploy/', import.meta.url));
/** The name of the API in all configurations. */
export const PUBLIC_NAME = 'understudy.example.com';

/** The ports of the boxes, by their names in the configurations: `api-1`, `gateway-2`. */
type Ports = ReadonlyMap<string, number>;

interface Listening {
  api_port: number;
  gateway_port: number;
}

interface Balancer {
  name: string;
  file: string;
  /** The program's name, and the arguments that print its version. */
  program: readonly [string, ...string[]];
  /** Whether the balancer checks that boxes are ready. */
  asks: boolean;
  /** Writes the configuration. @returns the arguments that start the balancer in the foreground */
  prepare(text: string, folder: string, ports: Ports, listening: Listening): string[];
}

function replaceNames(text: string, ports: Ports, pattern: RegExp, write: (port: number) => string): string {
  const replaced = text.replaceAll(pattern, (_, name: string) => write(ports.get(name)!));
  if (replaced === text) throw new Error(`nothing matches ${pattern}`);
  return replaced;
}

/** Replaces a text that must occur. */
function replaceOne(text: string, what: string, by: string): string {
  if (!text.includes(what)) throw new Error(`the configuration has no ${what}`);
  return text.replace(what, by);
}

export const BALANCERS: readonly Balancer[] = [
  {
    name: 'nginx',
    file: 'nginx-scale.conf',
    program: ['nginx', '-v'],
    asks: false,
    prepare(text, folder, ports, { api_port, gateway_port }) {
      let own = replaceNames(
        text,
        ports,
        /((?:api|gateway)-\d)\.internal:\d+/g,
        (port) => `127.0.0.1:${port}`,
      );
      own = replaceOne(own, 'listen 443 ssl', `listen 127.0.0.1:${api_port} ssl`);
      own = replaceOne(own, 'listen 127.0.0.1:8787', `listen 127.0.0.1:${gateway_port}`);
      own = replaceOne(own, '/etc/ssl/understudy.pem', join(folder, 'certificate.pem'));
      own = replaceOne(own, '/etc/ssl/understudy.key', join(folder, 'key.pem'));
      const temps = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        (name) => `${name}_temp_path ${join(folder, name)};`,
      );
      const main = `daemon off; pid ${join(folder, 'pid')}; error_log stderr; events {}`;
      writeFileSync(
        join(folder, 'nginx.conf'),
        `${main} http { access_log off; ${temps.join(' ')}\n${own}\n}`,
      );
      return ['-c', join(folder, 'nginx.conf'), '-e', 'stderr'];
    },
  },
  {
    name: 'Caddy',
    file: 'Caddyfile-scale',
    program: ['caddy', 'version'],
    asks: true,
    prepare(text, folder, ports, { api_port, gateway_port }) {
      let own = replaceNames(text, ports, /\b((?:api|gateway)-\d):\d+/g, (port) => `127.0.0.1:${port}`);
      const files = `${join(folder, 'certificate.pem')} ${join(folder, 'key.pem')}`;
      own = replaceOne(
        own,
        `${PUBLIC_NAME} {`,
        `${PUBLIC_NAME}:${api_port} {\n\tbind 127.0.0.1\n\ttls ${files}`,
      );
      own = replaceOne(own, ':8787 {', `http://:${gateway_port} {\n\tbind 127.0.0.1`);
      const global = '{\n\tadmin off\n\tpersist_config off\n\tauto_https disable_redirects\n}\n';
      writeFileSync(join(folder, 'Caddyfile'), global + own);
      return ['run', '--adapter', 'caddyfile', '--config', join(folder, 'Caddyfile')];
    },
  },
  {
    name: 'Envoy',
    file: 'envoy-scale.yaml',
    program: ['envoy', '--version'],
    asks: true,
    prepare(text, folder, ports, { api_port, gateway_port }) {
      const names = /address: ((?:api|gateway)-\d)\.internal, port_value: \d+/g;
      let own = replaceNames(text, ports, names, (port) => `address: 127.0.0.1, port_value: ${port}`);
      const at = (port: number) => `address: 127.0.0.1, port_value: ${port} `;
      own = replaceOne(own, 'address: 0.0.0.0, port_value: 443 ', at(api_port));
      own = replaceOne(own, 'address: 127.0.0.1, port_value: 8787 ', at(gateway_port));
      own = replaceOne(own, '/etc/ssl/understudy.pem', join(folder, 'certificate.pem'));
      own = replaceOne(own, '/etc/ssl/understudy.key', join(folder, 'key.pem'));
      // In these tests, the Host header of a client contains a port.
      own = replaceOne(own, `"${PUBLIC_NAME}"`, `"${PUBLIC_NAME}", "${PUBLIC_NAME}:*"`);
      writeFileSync(join(folder, 'envoy.yaml'), own);
      return ['-c', join(folder, 'envoy.yaml'), '--concurrency', '1', '--use-dynamic-base-id', '-l', 'error'];
    },
  },
];

/** Whether the machine has the program. */
export function hasBalancer({ program: [program, ...args] }: Balancer): boolean {
  return spawnSync(program, args).status === 0;
}

export class RunningBalancer implements Listening {
  readonly api_port: number;
  readonly gateway_port: number;
  readonly #process: ChildProcess;
  #said = '';

  /** Starts the balancer, which listens soon afterwards. */
  static async start(balancer: Balancer, folder: string, ports: Ports): Promise<RunningBalancer> {
    const listening = { api_port: await findFreePort(), gateway_port: await findFreePort() };
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'certificate.pem'), TEST_CERTIFICATE);
    writeFileSync(join(folder, 'key.pem'), TEST_KEY);
    const text = readFileSync(join(root, balancer.file), 'utf8');
    const args = balancer.prepare(text, folder, ports, listening);
    const env = { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
    const child = spawn(balancer.program[0], args, { env, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
    return new RunningBalancer(child, listening);
  }

  private constructor(child: ChildProcess, { api_port, gateway_port }: Listening) {
    this.#process = child;
    this.api_port = api_port;
    this.gateway_port = gateway_port;
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#said = (this.#said + text).slice(-4_096);
    });
  }

  /** What the program has printed. */
  get said(): string {
    return this.#said;
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null) return;
    const ended = once(this.#process, 'exit');
    // SIGTERM, because a worker of nginx would outlive a master that was killed by SIGKILL.
    this.#process.kill('SIGTERM');
    await ended;
  }
}
