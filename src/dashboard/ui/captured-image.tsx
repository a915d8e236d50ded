/**
 * An image or a file of a conversation. The conversation contains its address, its id or the digest of its bytes. Bytes
 * are read on demand from the stored request or answer. Browser.
 */
import { useState } from 'preact/hooks';
import { send } from '../core/api.ts';
import type { Block } from '../core/captured.ts';

type Media = Extract<Block, { type: 'media' }>;

/** Types of images that cannot contain scripts. Other types are not shown. */
const SHOWN_TYPES = /^image\/(?:png|jpeg|gif|webp)$/;

export function CapturedImage({ media, exchange_id }: { media: Media; exchange_id: number }) {
  const [shown, setShown] = useState<string | null>(null);
  const [said, say] = useState('');
  const { kind, media_type, source, data } = media;
  const words = `${kind}${media_type === null ? '' : `, ${media_type}`}`;
  if (shown !== null) return <img class="captured-image" src={shown} alt={`Captured ${words}`} />;
  if (source === 'url' || source === 'file_id')
    return (
      <p class="media">
        {words} by {source === 'url' ? 'address' : 'id'}: <code>{data}</code>
      </p>
    );
  const find = async () => {
    say('looking for it…');
    const found = await findBytes(exchange_id, data).catch((thrown: Error) => thrown.message);
    if (found?.startsWith('data:')) setShown(found);
    else say(found ?? 'its bytes are not in the stored bodies');
  };
  return (
    <p class="media">
      {words}{' '}
      {media_type !== null && SHOWN_TYPES.test(media_type) && said === '' ? (
        <button type="button" class="plain small" onClick={find}>
          Show
        </button>
      ) : (
        <span class="faint" role="status">
          {said}
        </span>
      )}
    </p>
  );
}

/**
 * Searches the stored request and answer for bytes with this digest.
 * @returns a `data:` address with the bytes; null if they are not found; a text that says why this browser cannot search
 */
async function findBytes(exchange_id: number, sha256: string): Promise<string | null> {
  if (globalThis.crypto.subtle === undefined)
    return 'images are shown only on localhost or over TLS; download the raw body';
  for (const side of ['request', 'response']) {
    const body = await (await send(`GET /capture/exchanges/${exchange_id}/${side}`)).text();
    for (const [text] of body.matchAll(/(?<=")[A-Za-z0-9+/=_-]{64,}(?=")|(?<=base64,)[A-Za-z0-9+/=]{64,}/g)) {
      const url = await matches(text, sha256);
      if (url !== null) return url;
    }
  }
  return null;
}

async function matches(base64: string, sha256: string): Promise<string | null> {
  try {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
    const hex = [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    return hex === sha256 ? `data:${typeOf(bytes)};base64,${base64}` : null;
  } catch {
    return null;
  }
}

function typeOf([first]: Uint8Array): string {
  if (first === 0x89) return 'image/png';
  if (first === 0xff) return 'image/jpeg';
  return first === 0x47 ? 'image/gif' : 'image/webp';
}
