/**
 * The dashboard's files, as built by `tools/bundle.ts`. They are loaded once, at start, and served compressed to
 * browsers that accept it. The page calls this API with the session of the signed-in user. Server threads.
 */
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { endpoint } from '../contract/endpoint.ts';
import { type ApiReply, type ApiRequest, type ApiRoute, jsonReply } from '../contract/route.ts';

/** Facts that decide what the page shows. They are public, so they contain no secret and no internal address. */
export interface DashboardFacts {
  version: string;
  /** null: this process has no gateway. */
  gateway_port: number | null;
  /** Whether the gateway listens only on loopback. */
  gateway_is_local: boolean;
  gateway_is_secure: boolean;
  has_live_stream: boolean;
  has_billing: boolean;
}

const FOLDER = new URL('../dashboard/dist/', import.meta.url);

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};
const SUFFIXES: Readonly<Record<string, string>> = { br: '.br', gzip: '.gz' };

/** The page runs only its own script, sends requests only to this origin, and may not be framed. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** The content of a file whose name is its digest never changes. */
const FOR_EVER = 'public, max-age=31536000, immutable';

const NOT_BUILT = `<!doctype html><meta charset="utf-8"><title>Understudy</title>
<p>The dashboard is not built here: run <code>npm ci</code> or <code>node tools/bundle.ts</code> and restart.
The API answers without it: see <a href="/docs">/docs</a>.</p>
`;

interface BuiltFile {
  name: string;
  is_hashed: boolean;
  encodings: string[];
}

export function dashboardRoutes(facts: DashboardFacts): ApiRoute[] {
  const config = jsonReply(200, facts);
  const noCache: ApiReply = { ...config, headers: [...config.headers, ['cache-control', 'no-cache']] };
  return [
    serve('/dashboard/config.json', 'application/json', () => noCache),
    ...listBuilt().map((file) => {
      const type = MEDIA_TYPES[extname(file.name)]!;
      const path = file.name === 'index.html' ? '/' : `/dashboard/${file.name}`;
      return serve(path, type, answerFile(file, type));
    }),
  ];
}

/**
 * Lists the built files. If nothing was built, as in a checkout without its development packages, the only
 * file is a page that says so.
 */
function listBuilt(): BuiltFile[] {
  try {
    return (JSON.parse(readFileSync(new URL('files.json', FOLDER), 'utf8')) as { files: BuiltFile[] }).files;
  } catch {
    return [{ name: 'index.html', is_hashed: false, encodings: [] }];
  }
}

function answerFile({ name, is_hashed, encodings }: BuiltFile, type: string): ApiRoute['handle'] {
  const headers: ApiReply['headers'] = [
    ['content-type', type],
    ['content-security-policy', POLICY],
    ['x-content-type-options', 'nosniff'],
    ['referrer-policy', 'no-referrer'],
    ['cache-control', is_hashed ? FOR_EVER : 'no-cache'],
    ['vary', 'accept-encoding'],
  ];
  const isBuilt = encodings.length > 0;
  const plain: ApiReply = {
    status: 200,
    headers,
    body: isBuilt ? readFileSync(new URL(name, FOLDER)) : NOT_BUILT,
  };
  const compressed = encodings.map((encoding) => ({
    // The coding must be a separate token that is not excluded by `q=0`.
    pattern: new RegExp(`(?:^|[\\s,])${encoding}(?!\\s*;\\s*q=0(?:\\.0*)?\\s*(?:,|$))\\s*(?:[;,]|$)`),
    reply: {
      status: 200,
      headers: [...headers, ['content-encoding', encoding] as const],
      body: readFileSync(new URL(name + SUFFIXES[encoding], FOLDER)),
    },
  }));
  return ({ headers: asked }: ApiRequest) => {
    const accepted = asked.get('accept-encoding')?.toLowerCase() ?? '';
    return compressed.find(({ pattern }) => pattern.test(accepted))?.reply ?? plain;
  };
}

function serve(path: string, media_type: string, handle: ApiRoute['handle']): ApiRoute {
  return {
    endpoint: endpoint({
      id: `dashboard${path.replace(/\W/g, '_')}`,
      method: 'GET',
      path,
      // People also type `/dashboard`.
      aliases: path === '/' ? ['/dashboard'] : [],
      auth: 'open',
      summary: "A file of the dashboard's page",
      tag: 'service',
      replies: { 200: { description: 'The file', media_type } },
      hidden: true,
    }),
    handle,
  };
}
