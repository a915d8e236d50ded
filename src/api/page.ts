/**
 * The common style and policy of the pages under `/docs`. Server threads.
 */
import { createHash } from 'node:crypto';
import type { ApiReply } from '../contract/route.ts';

/** The style sheet, for light and dark screens. It uses no images and no web fonts. */
export const PAGE_STYLE = `:root{color-scheme:light dark;--line:light-dark(#e1e6e4,#2b3230);--faint:light-dark(#5d6966,#98a5a1);
--soft:light-dark(#eef2f0,#222826);--accent:light-dark(#0b6b5d,#5fd0bd);font:15px/1.5 system-ui,sans-serif}
*{box-sizing:border-box}
body{margin:0;display:grid;grid-template-columns:21rem minmax(0,1fr);background:light-dark(#fff,#141817);color:light-dark(#1b2422,#e4e9e7)}
a{color:var(--accent)}code,pre{font:13px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}
nav{grid-area:1/1;position:sticky;top:0;height:100vh;overflow-y:auto;padding:1.25rem 1rem 3rem;border-right:1px solid var(--line)}
nav p{margin:1rem 0 .2rem;font-weight:600}nav ul{list-style:none;margin:0;padding:0}nav a{color:inherit;text-decoration:none}
nav li{padding:.1rem 0;line-height:1.3;font-size:13px}nav code{display:flex;gap:.6em}nav .method{flex:none}nav a:hover code{color:var(--accent)}
main{grid-area:1/2;max-width:58rem;padding:1.5rem 2rem 6rem}h1{margin:0;font-size:1.5rem}small,.faint{color:var(--faint);font-weight:400}.narrow{display:none}
h2{margin:3rem 0 0;padding-bottom:.3rem;border-bottom:1px solid var(--line);font-size:1.25rem}
h3{margin:2rem 0 .3rem;font-size:1rem;scroll-margin-top:1rem}h3 code{font-size:14px}h4{margin:.9rem 0 .2rem;font-size:.9rem}
td pre{white-space:pre-wrap}p{margin:.3rem 0}pre{overflow:auto;padding:.75rem;background:var(--soft);border-radius:6px}
.method{display:inline-block;min-width:3.6em;color:var(--accent)}
table{border-collapse:collapse;width:100%}td{padding:.25rem 1rem .25rem 0;vertical-align:top;border-bottom:1px solid var(--line)}
td:first-child{width:13rem}th{text-align:left;padding:.25rem 1rem .25rem 0;vertical-align:bottom}
.guide td:first-child{width:auto}.guide td code{overflow-wrap:break-word}.guide p,.guide ul{margin:.6rem 0}.guide table,.guide pre{margin:.8rem 0}
.try{margin:.6rem 0}.try summary{cursor:pointer;color:var(--accent)}form{display:grid;gap:.5rem;margin:.5rem 0}label{display:grid;gap:.15rem}
input,textarea,button{font:13px/1.5 ui-monospace,monospace;padding:.35rem .5rem;border:1px solid var(--faint);border-radius:4px;background:transparent;color:inherit}
button{justify-self:start;padding:.35rem 1rem;cursor:pointer;border-color:var(--accent);color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}output{white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.5 ui-monospace,monospace}
@media(max-width:52rem){.narrow{display:inline}body{display:block}nav{position:static;height:auto;border:none}main{padding:1rem}table,tbody{display:block}td{display:block;border:none;overflow-wrap:anywhere;width:auto!important;padding:.1rem 0}tr{display:block;padding:.3rem 0;border-bottom:1px solid var(--line)}.guide td code{overflow-wrap:anywhere}thead{display:none}}`;

/** The page may use its own style and the scripts of this origin, and send requests to this origin, nothing else. */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  `style-src 'sha256-${createHash('sha256').update(PAGE_STYLE).digest('base64')}'`,
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Makes the answer with a page, whose content security policy is PAGE_POLICY. */
export function pageReply(html: string): ApiReply {
  return {
    status: 200,
    headers: [
      ['content-type', 'text/html; charset=utf-8'],
      ['content-security-policy', PAGE_POLICY],
      ['x-content-type-options', 'nosniff'],
      ['referrer-policy', 'no-referrer'],
    ],
    body: html,
  };
}

/** Escapes text for use between tags and in quoted attributes. */
export function escapeHtml(text: string): string {
  const entities: Record<string, string> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  };
  return text.replace(/[&<>"']/g, (character) => entities[character]!);
}
