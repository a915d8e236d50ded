/**
 * Sends one message of an alert by mail, through the server that the operator has named (ALERT_SMTP_URL). The mail
 * library is loaded with the first message. Server threads.
 */
import type { AlertDestination } from '../domain/alert.ts';
import { describeFailure, type Message, SendError } from './send-webhook.ts';

export interface MailSettings {
  /** `smtp:` or `smtps:`, with credentials or without. Secret: never print. */
  readonly url: string;
  readonly from: string;
}

/** Sends a message as one mail. @throws SendError if the server has not accepted the mail, or no server is set */
export async function sendMail(
  { to }: AlertDestination,
  { delivery_id, news }: Message,
  settings: MailSettings | null,
  signal: AbortSignal,
): Promise<void> {
  if (settings === null) throw new SendError('ALERT_SMTP_URL is not set');
  const { createTransport } = await import('nodemailer');
  const { protocol, hostname, port, username, password } = new URL(settings.url);
  const isTls = protocol === 'smtps:';
  const transport = createTransport({
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? (isTls ? 465 : 587) : Number(port),
    secure: isTls,
    // With a password, require TLS, so that it is never sent unencrypted.
    requireTLS: !isTls && username !== '',
    ...(username === ''
      ? {}
      : { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  try {
    await transport.sendMail({
      from: settings.from,
      to,
      subject: news.text.slice(0, SUBJECT_CHARACTERS),
      text: `${news.text}\n\n${news.at}\n`,
      messageId: `<${delivery_id}@understudy>`,
      headers: { 'X-Understudy-Delivery': delivery_id },
      signal,
    });
  } catch (thrown) {
    const refused = (thrown as { responseCode?: unknown } | null)?.responseCode;
    throw new SendError(
      typeof refused === 'number' ? `the mail server answered ${refused}` : describeFailure(thrown, signal),
    );
  } finally {
    transport.close();
  }
}

const SUBJECT_CHARACTERS = 200;
