/**
 * The MCP server as a command: `understudy mcp`, and the separate package of that server (clients/mcp). This file does
 * not load the service's configuration. Main thread of a separate process.
 */

import type { AgentConnection } from '../config/agent-connection.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT } from './io.ts';
import { makeHarmlessLine } from './terminal-text.ts';

/** How long a tool waits for the API. The agent waits for the tool. */
const MCP_CALL_MS = 20_000;

/** The differences between the service's command and the package. */
interface McpHost {
  /** The command as its users type it. */
  readonly name: string;
  /** The command line with which another program starts the command from any folder. */
  readonly line: string;
  readonly version: string;
  /** Reads the connection to the API. @throws ConfigError if the key is missing, or a value is not allowed */
  connect(url: string | undefined): AgentConnection;
}

const help = ({
  name,
  line,
}: McpHost) => `Gives an agent tools over the Model Context Protocol, on standard input and output: retrieve_patterns,
recall_findings, record_finding, search_runs and read_run. The command runs as long as its input is open, and calls
the API of a service that runs elsewhere. If the agent's client supports HTTP, use the service's address /mcp instead.

Usage: ${name} [--url URL] [--codebase ID] [--org ID] [--project ID]

  --url URL         address of the API; default: SVC_BASE_URL, otherwise http://127.0.0.1:8000
  --codebase ID     the code base of calls that name none, such as owner/name
  --org ID          the organization; only with the operator's key
  --project ID      the project; only with the operator's key, because a customer's key determines both

The API key is read only from SVC_API_KEY, because other users of the machine can see the flags of a process.

Examples:
  claude mcp add understudy --env SVC_API_KEY=svc_live_... -- ${line} --codebase owner/name
  codex mcp add understudy --env SVC_API_KEY=svc_live_... -- ${line} --codebase owner/name
`;

/**
 * Serves until the agent closes the input.
 * @returns the exit status
 * @throws UsageError for wrong flags, ConfigError without a connection
 */
export async function runMcpCommand(argv: string[], io: CliIo, host: McpHost): Promise<number> {
  const values = readFlags(argv, { url: 'text', codebase: 'text', org: 'text', project: 'text' });
  if (values.help) {
    await io.out(help(host));
    return EXIT.done;
  }
  const { base_url, api_key } = host.connect(values.url);
  const [{ remoteApi }, { serveMcpOnStdio }] = await Promise.all([
    import('../mcp/remote-api.ts'),
    import('../mcp/stdio.ts'),
  ]);
  const tenant = {
    ...(values.org === undefined ? {} : { org_id: values.org }),
    ...(values.project === undefined ? {} : { project_id: values.project }),
  };
  const call = remoteApi({ base_url, api_key, tenant, timeout_ms: MCP_CALL_MS });
  await serveMcpOnStdio(
    { version: host.version, call, codebase_id: values.codebase || null },
    ({ message }) => io.err(`understudy: ${makeHarmlessLine(message)}\n`),
  );
  return EXIT.done;
}
