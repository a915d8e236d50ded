/**
 * The dashboard's files (src/dashboard), read once at start and served as they are: a page that calls this API with the
 * user's own token. Server threads.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { endpoint } from '../contract/endpoint.ts';
import { type ApiReply, type ApiRoute, jsonReply } from '../contract/route.ts';

/**
 * What the page shows and hides by. Anybody can read it before signing in: nothing in it that a visitor must not know,
 * no internal address among it.
 */
export interface DashboardFacts {
  version: string;
  /** null: this process has no gateway. */
  gateway_port: number | null;
  /** Only the server's own machine reaches the gateway. */
  gateway_is_local: boolean;
  has_live_stream: boolean;
  has_billing: boolean;
}

const FOLDER = new URL('../dashboard/', import.meta.url);

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** The page runs its own scripts alone, talks to this address alone, and stands in nobody's frame. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** @throws Error when the files are missing */
export function dashboardRoutes(facts: DashboardFacts): ApiRoute[] {
  const files = readdirSync(FOLDER).filter((file) => extname(file) in MEDIA_TYPES);
  if (!files.includes('index.html')) throw new Error(`${FOLDER.pathname} holds no dashboard`);
  const config = jsonReply(200, facts);
  return [
    serve('/dashboard/config.json', {
      ...config,
      headers: [...config.headers, ['cache-control', 'no-cache']],
    }),
    ...files.map((file) =>
      serve(file === 'index.html' ? '/' : `/dashboard/${file}`, {
        status: 200,
        headers: [
          ['content-type', MEDIA_TYPES[extname(file)]!],
          ['content-security-policy', POLICY],
          ['x-content-type-options', 'nosniff'],
          ['referrer-policy', 'no-referrer'],
          ['cache-control', 'no-cache'],
        ],
        body: readFileSync(new URL(file, FOLDER)),
      }),
    ),
  ];
}

function serve(path: string, reply: ApiReply): ApiRoute {
  const [, media_type] = reply.headers.find(([name]) => name === 'content-type')!;
  return {
    endpoint: endpoint({
      id: `dashboard${path.replace(/\W/g, '_')}`,
      method: 'GET',
      path,
      // What people type.
      aliases: path === '/' ? ['/dashboard'] : [],
      auth: 'open',
      summary: "A file of the dashboard's page",
      tag: 'service',
      replies: { 200: { description: 'The file', media_type } },
      hidden: true,
    }),
    handle: () => reply,
  };
}
