import { Component, type ReactNode } from "react";

import { Problem } from "./Problem";

/* Keeps a fault of one page from taking the frame with it. */
export class Faults extends Component<{ children: ReactNode }, { fault: Error | null }> {
  override state: { fault: Error | null } = { fault: null };

  static getDerivedStateFromError(fault: Error): { fault: Error } {
    return { fault };
  }

  override render(): ReactNode {
    if (this.state.fault === null) return this.props.children;
    return (
      <section className="card">
        <Problem fault={this.state.fault} onRetry={() => this.setState({ fault: null })} />
      </section>
    );
  }
}
