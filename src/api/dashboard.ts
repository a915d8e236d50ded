/**
 * The dashboard's files (src/dashboard), read once at start and served as they are: a page that calls this API with the
 * user's own token. Front threads.
 */
import { readFileSync } from 'node:fs';
import { endpoint } from '../contract/endpoint.ts';
import type { ApiReply, ApiRoute } from '../contract/route.ts';

/** What is served, by its path. */
const FILES = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/dashboard/style.css': ['style.css', 'text/css; charset=utf-8'],
  '/dashboard/app.js': ['app.js', 'text/javascript; charset=utf-8'],
  '/dashboard/elements.js': ['elements.js', 'text/javascript; charset=utf-8'],
  '/dashboard/sections.js': ['sections.js', 'text/javascript; charset=utf-8'],
  '/dashboard/session.js': ['session.js', 'text/javascript; charset=utf-8'],
} as const;

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

/** @throws Error when a file is missing */
export function dashboardRoutes(): ApiRoute[] {
  return Object.entries(FILES).map(([path, [file, type]]) => {
    const reply: ApiReply = {
      status: 200,
      headers: [
        ['content-type', type],
        ['content-security-policy', POLICY],
        ['x-content-type-options', 'nosniff'],
        ['referrer-policy', 'no-referrer'],
        ['cache-control', 'no-cache'],
      ],
      body: readFileSync(new URL(`../dashboard/${file}`, import.meta.url)),
    };
    return {
      endpoint: endpoint({
        id: `dashboard_${file.replace(/\W/g, '_')}`,
        method: 'GET',
        path,
        auth: 'open',
        summary: "A file of the dashboard's page",
        tag: 'service',
        replies: { 200: { description: 'The file', media_type: type } },
        hidden: true,
      }),
      handle: () => reply,
    };
  });
}
