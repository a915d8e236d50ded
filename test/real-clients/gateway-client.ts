/**
 * Runs each client through the gateway with only a base URL, so that one test can check the same rules for all clients.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ScriptedToolCall } from '../../src/demo/script.ts';
import { type ClientHome, readJsonLines, runClient } from './client-session.ts';
import { type InstalledClient, installClient } from './installed-client.ts';
import { claudeCode, codex, newerCodex, type Session } from './known-client.ts';

interface GatewayClient {
  name: string;
  installed: InstalledClient;
  /** A shell call in a script of the provider. */
  shell(command: string): ScriptedToolCall;
  /** Gives the client a task. @param gateway base address for the client's model requests, without a path */
  ask(home: ClientHome, prompt: string, gateway: string): Promise<Session>;
  /** The request header with the id of the client's session; null: the client sends no such header. */
  session_header: string | null;
  /** Whether the client's runs can be proven complete without the numbers of labels. */
  is_provable: boolean;
}

const PROVIDER_KEY = 'provider-key';

export async function gatewayClients(): Promise<GatewayClient[]> {
  const [claude, openai, newer, gemini, open] = await Promise.all([
    claudeCode(),
    codex(),
    newerCodex(),
    geminiCli(),
    opencode(),
  ]);
  return [
    { ...claude, session_header: 'x-claude-code-session-id', is_provable: true },
    { ...openai, session_header: 'thread-id', is_provable: true },
    { ...newer, name: newer.title, session_header: 'thread-id', is_provable: true },
    gemini,
    open,
  ];
}

async function geminiCli(): Promise<GatewayClient> {
  const installed = await installClient('gemini-cli');
  return {
    name: 'gemini-cli',
    installed,
    session_header: null,
    is_provable: false,
    shell: (command) => ({ name: 'run_shell_command', input: { command, description: 'Runs it.' } }),
    ask: async (home, prompt, gateway) => {
      writeJson(join(home.home, '.gemini', 'settings.json'), {
        security: { auth: { selectedType: 'gemini-api-key' } },
        privacy: { usageStatisticsEnabled: false },
        general: { enableAutoUpdate: false },
      });
      const words = ['-p', prompt, '--output-format', 'stream-json', '--yolo', '--skip-trust'];
      const end = await runClient(installed, home, [...words, '-m', 'gemini-2.5-pro'], {
        GEMINI_API_KEY: PROVIDER_KEY,
        GOOGLE_GEMINI_BASE_URL: `${gateway}/gemini`,
      });
      const events = readJsonLines(end.stdout);
      return {
        ...end,
        id: events.find(({ type }) => type === 'init')?.session_id ?? '',
        answer: joinAnswer(events),
      };
    },
  };
}

/** Joins the pieces of the agent's text since its last tool call. */
// biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
function joinAnswer(events: any[]): string {
  const from = events.findLastIndex(({ type }) => type === 'tool_result') + 1;
  const said = events.slice(from).filter(({ type, role }) => type === 'message' && role === 'assistant');
  return said.map(({ content }) => content).join('');
}

async function opencode(): Promise<GatewayClient> {
  const installed = await installClient('opencode');
  return {
    name: 'opencode',
    installed,
    session_header: 'x-session-affinity',
    is_provable: true,
    shell: (command) => ({ name: 'bash', input: { command, description: 'Runs it.' } }),
    ask: async (home, prompt, gateway) => {
      writeJson(join(home.home, '.config', 'opencode', 'opencode.json'), {
        autoupdate: false,
        share: 'disabled',
        model: 'fake/demo-large',
        small_model: 'fake/demo-small',
        permission: 'allow',
        provider: {
          fake: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: `${gateway}/v1`, apiKey: PROVIDER_KEY },
            models: { 'demo-large': { tool_call: true }, 'demo-small': {} },
          },
        },
      });
      const end = await runClient(installed, home, ['run', '--format', 'json', prompt], {
        OPENCODE_DISABLE_MODELS_FETCH: '1',
        OPENCODE_DISABLE_AUTOUPDATE: '1',
        OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
      });
      const events = readJsonLines(end.stdout);
      return {
        ...end,
        id: events[0]?.sessionID ?? '',
        answer: events.findLast(({ type }) => type === 'text')?.part.text ?? '',
      };
    },
  };
}

function writeJson(path: string, value: unknown): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(value));
}
