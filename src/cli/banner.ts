/** The text on the terminal after a start: addresses and next steps. Pure; main thread. */

import { relative, resolve } from 'node:path';
import { styleText } from 'node:util';
import { toLocalUrl } from '../config/local-address.ts';
import type { Config } from '../config.ts';
import { quoteForShell } from '../std/shell-word.ts';

/** The addresses on which the started parts listen; null: the part was not started. */
interface StartedAddresses {
  /**
   * The implementation that checks the framing of requests: native, or js if the native code does not run.
   */
  framing_guard?: string;
  api_url: string | null;
  gateway_url: string | null;
  /** null or absent: there is no proxy. */
  proxy_url?: string | null;
  /** Signs the first user in; null: tokens come from an identity provider. */
  owner_token: string | null;
}

interface BannerSurroundings {
  /**
   * Whether the output goes to a person. Otherwise it may be stored, for example in a container's log, which
   * must not contain a token.
   */
  is_terminal: boolean;
  /** Headings are coloured. */
  has_color: boolean;
  /** The working directory. Paths below it are shown relative to it. */
  cwd: string;
  /** Node's own path. */
  exec_path: string;
  /** The command's entry file. */
  entry: string;
}

/** Writes what a service prints when its parts listen. @returns lines of text, each with a line end */
export function renderBanner(
  config: Config,
  { api_url, gateway_url, proxy_url = null, owner_token, framing_guard }: StartedAddresses,
  surroundings: BannerSurroundings,
): string {
  const { has_color, cwd } = surroundings;
  const bold = (text: string) => (has_color ? styleText('bold', text, { validateStream: false }) : text);
  const sections = [[bold(`Understudy ${config.version}`)], renderPlaces(config, api_url, gateway_url, cwd)];
  if (framing_guard !== undefined) sections[1]!.push(`  framing_guard: ${framing_guard}`);
  if (api_url !== null) {
    const url = config.api.public_url ?? toLocalUrl(api_url);
    sections.push(renderDashboardLines(url, owner_token, config, surroundings, bold));
  }
  if (gateway_url !== null) {
    sections.push([bold('Point an agent at the gateway:'), ...renderAgentLines(toLocalUrl(gateway_url))]);
    if (proxy_url !== null) sections.push(renderProxyLines(proxy_url, config, surroundings, bold));
    sections.push(renderCaptureLines(config, surroundings, bold));
  }
  return `${sections.map((lines) => lines.join('\n')).join('\n\n')}\n\n`;
}

function renderPlaces(
  config: Config,
  api_url: string | null,
  gateway_url: string | null,
  cwd: string,
): string[] {
  const rows: [name: string, value: string][] = [];
  const { gateway } = config;
  if (api_url !== null) rows.push(['API', api_url], ['Docs', `${api_url}/docs`]);
  if (gateway_url !== null) {
    rows.push(['Gateway', `${gateway_url}  ->  ${gateway.upstream_base}`]);
    rows.push(['', `${gateway_url}/gemini  ->  ${gateway.gemini_base}`]);
    rows.push(['', `${gateway_url}/bedrock/{region}  ->  ${gateway.bedrock_base}`]);
    for (const { prefix, takes_region, base } of gateway.routes)
      rows.push(['', `${gateway_url}${prefix}${takes_region ? '/{region}' : ''}  ->  ${base}`]);
    if (config.relegation !== null) rows.push(['Student', describeStudent(config.relegation, cwd)]);
  }
  rows.push(['Data', shortenPath(config.data_dir, cwd)]);
  const { cores, server_threads, actor_threads } = config;
  rows.push([
    'Threads',
    `${server_threads} server, ${actor_threads} actor, on ${cores === 1 ? '1 core' : `${cores} cores`}`,
  ]);
  // Engines that run inside this process.
  const { accounts, vector_store, live_stream } = config.engines;
  const embedded = [
    ...(api_url !== null && accounts === 'embedded:' ? ['accounts'] : []),
    ...(api_url !== null && vector_store === 'embedded:' ? ['patterns'] : []),
    ...(api_url !== null && live_stream === 'embedded:' ? ['live stream'] : []),
    ...(gateway_url !== null && config.capture.enabled ? ['capture database'] : []),
  ];
  if (embedded.length > 0) rows.push(['Embedded', embedded.join(', ')]);
  return rows.map(([name, value]) => `  ${name.padEnd(9)} ${value}`);
}

function describeStudent({ directory, mode }: NonNullable<Config['relegation']>, cwd: string): string {
  const doing =
    mode === 'shadow' ? 'is compared with the upstream, serves nothing' : 'serves what it has mastered';
  return `${shortenPath(directory, cwd)}  (${doing})`;
}

function renderDashboardLines(
  url: string,
  token: string | null,
  config: Config,
  surroundings: BannerSurroundings,
  bold: (text: string) => string,
): string[] {
  if (token === null) return [bold('Dashboard:'), `  ${url}/`];
  if (surroundings.is_terminal)
    return [bold('Dashboard, signed in for a day (keep the link to yourself):'), `  ${url}/#token=${token}`];
  return [
    bold(
      'Dashboard (no sign-in link, because the output is not a terminal; the command below prints a token):',
    ),
    `  ${url}/`,
    `  ${renderDataCommand('token --owner', config, surroundings)}`,
  ];
}

function renderAgentLines(url: string): string[] {
  const rows: [client: string, setting: string, hint?: string][] = [
    ['Anthropic', `ANTHROPIC_BASE_URL=${url}`],
    [
      'OpenAI',
      `OPENAI_BASE_URL=${url}/v1`,
      'with GW_UPSTREAM_BASE=https://api.openai.com GW_PROVIDER=openai',
    ],
    ['Gemini', `GOOGLE_GEMINI_BASE_URL=${url}/gemini`],
    ['Bedrock', `AWS_ENDPOINT_URL_BEDROCK_RUNTIME=${url}/bedrock/us-east-1`, 'with AWS_BEARER_TOKEN_BEDROCK'],
  ];
  return rows.map(
    ([client, setting, hint]) =>
      `  ${client.padEnd(9)} ${setting}${hint === undefined ? '' : `   (${hint})`}`,
  );
}

function renderProxyLines(
  url: string,
  config: Config,
  surroundings: BannerSurroundings,
  bold: (text: string) => string,
): string[] {
  return [
    bold('Or through the proxy, for clients that lose features with another base URL:'),
    `  HTTPS_PROXY=${toLocalUrl(url)}   (everything that a client needs: ${renderDataCommand('proxy --trust', config, surroundings)})`,
  ];
}

function renderCaptureLines(
  config: Config,
  surroundings: BannerSurroundings,
  bold: (text: string) => string,
): string[] {
  if (!config.capture.enabled) return ['Nothing is captured: GW_CAPTURE is off.'];
  const db = quoteForShell(shortenPath(config.capture.db, surroundings.cwd));
  return [bold('See what the gateway captured:'), `  ${renderCommand(`inspect --db ${db}`, surroundings)}`];
}

/**
 * A command that reads DATA_DIR. It names the folder, because this process's variables are not set in another terminal.
 */
function renderDataCommand(words: string, { data_dir }: Config, surroundings: BannerSurroundings): string {
  const { cwd } = surroundings;
  const setting =
    data_dir === resolve(cwd, 'data') ? '' : `DATA_DIR=${quoteForShell(shortenPath(data_dir, cwd))} `;
  return `${setting}${renderCommand(words, surroundings)}`;
}

/**
 * The command line that runs another of our commands in another terminal. It names Node by its path: a Node that npx
 * fetched for this process is not on that terminal's PATH, and the machine's own Node may be too old.
 */
function renderCommand(words: string, { exec_path, entry, cwd }: BannerSurroundings): string {
  const isBorrowedNode = /[\\/]_npx[\\/]/.test(exec_path);
  return isBorrowedNode
    ? `npx -y -p node@22 -c "node ${shortenPath(entry, cwd)} ${words}"`
    : `npx understudy-gateway ${words}`;
}

function shortenPath(path: string, cwd: string): string {
  const short = relative(cwd, path);
  return short === '' || short.startsWith('..') ? path : short;
}
